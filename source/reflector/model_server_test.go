package reflector_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"kubecdc/internal/wait"
)

// modelServer is an API server in memory, before an etcd in memory. It has lists in pages, streaming lists, reads of the past, watches,
// compaction, and restores from a backup. At random a watch gets 410, ends early or repeats events, and objects change between two
// pages.
type modelServer struct {
	mu        sync.Mutex
	random    *rand.Rand
	writes    []modelWrite // in order of revision
	now       uint64
	compacted uint64 // revisions before it can't be read
	uids      int
	changed   chan struct{} // closed at each write
	cut       chan struct{} // closed to end all watches

	expires, repeats float64 // how often a watch gets 410, and an event is delivered again
	fails, stalls    float64 // how often a list fails, and how often it takes minutes
	writeChance      float64 // how often objects are written between two pages

	stale   bool // a DELETED event has the version that the object had
	selects bool // an object may leave the collection, and come back with its uid

	interruptIn int    // at which request interrupt is called; below 1: at none
	interrupt   func() // ends the step that asks
}

type modelWrite struct {
	revision            uint64
	op                  string
	resource, name, uid string
}

func (w modelWrite) object() string {
	return fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"namespace":"default","uid":%q,"resourceVersion":"%d"},"data":{"k":"%s %d"}}`,
		w.name, w.uid, w.revision, w.op, w.revision)
}

func newModelServer(random *rand.Rand) *modelServer {
	return &modelServer{random: random, now: 10, changed: make(chan struct{}), cut: make(chan struct{})}
}

// at returns the live objects of a resource at a revision, by name.
func (m *modelServer) writesAt(resource string, revision uint64) []modelWrite {
	objects := map[string]modelWrite{}
	for _, w := range m.writes {
		switch {
		case w.resource != resource || w.revision > revision:
		case w.op == "d":
			delete(objects, w.name)
		default:
			objects[w.name] = w
		}
	}
	var all []modelWrite
	for _, w := range objects {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b modelWrite) int { return cmp.Compare(a.name, b.name) })
	return all
}

// before returns the write before w to an object of its name, if there is one.
func (m *modelServer) before(w modelWrite) (last modelWrite) {
	for _, o := range m.writes {
		if o.revision < w.revision && o.resource == w.resource && o.name == w.name {
			last = o
		}
	}
	return last
}

// event is a write as a watch delivers it.
func (m *modelServer) event(w modelWrite) string {
	kind := eventTypes[w.op]
	if w.op == "d" && m.stale {
		w = m.before(w)
	}
	return `{"type":"` + kind + `","object":` + w.object() + "}\n"
}

// write writes objects of the resources at random.
func (m *modelServer) write(n int, resources ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writeLocked(n, resources...)
}

func (m *modelServer) writeLocked(n int, resources ...string) {
	for range n {
		m.now++
		if len(resources) == 0 { // something that no stream reads
			continue
		}
		resource := resources[m.random.IntN(len(resources))]
		w := modelWrite{revision: m.now, op: "c", resource: resource, name: fmt.Sprintf("n%d", m.random.IntN(6))}
		alive := m.writesAt(resource, m.now)
		if i := slices.IndexFunc(alive, func(o modelWrite) bool { return o.name == w.name }); i >= 0 {
			w.op, w.uid = []string{"u", "u", "d"}[m.random.IntN(3)], alive[i].uid
		} else {
			m.uids++
			w.uid = fmt.Sprintf("%08x-0000-4000-8000-000000000000", m.uids)
			if last := m.before(w); m.selects && last.uid != "" && m.random.IntN(2) == 0 {
				w.uid = last.uid
			}
		}
		m.writes = append(m.writes, w)
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

// endWatches ends all watches.
func (m *modelServer) endWatches() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.cut)
	m.cut = make(chan struct{})
}

// restore sets etcd back to a revision. What is written then has other uids than what is gone.
func (m *modelServer) restore(revision uint64) {
	m.mu.Lock()
	m.writes = slices.DeleteFunc(slices.Clone(m.writes), func(w modelWrite) bool { return w.revision > revision })
	m.now = revision
	m.mu.Unlock()
	m.endWatches()
}

func (m *modelServer) RoundTrip(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	m.interruptIn = max(m.interruptIn-1, -1)
	now, interrupt := m.interruptIn == 0, m.interrupt
	m.mu.Unlock()
	if now {
		interrupt()
	}
	q := r.URL.Query()
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	resource := parts[len(parts)-1]
	answer := func(status int, body io.ReadCloser) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: r, Body: body,
			ProtoMajor: 1, ProtoMinor: 1}, nil
	}
	switch {
	case parts[0] != "api":
		return answer(404, io.NopCloser(strings.NewReader(failure(404, "NotFound"))))
	case q.Get("sendInitialEvents") != "" && m.random.IntN(6) == 0:
		return answer(422, io.NopCloser(strings.NewReader(failure(422, "Invalid"))))
	case q.Get("watch") != "":
		seconds, _ := strconv.Atoi(q.Get("timeoutSeconds"))
		from, _ := strconv.ParseUint(q.Get("resourceVersion"), 10, 64)
		reader, writer := io.Pipe()
		ctx, cancel := context.WithTimeout(r.Context(), time.Duration(seconds)*time.Second)
		go func() {
			defer cancel()
			m.watch(ctx, writer, resource, from, q.Get("sendInitialEvents") != "")
			writer.Close()
		}()
		return answer(200, reader)
	}
	if m.random.Float64() < m.stalls {
		if err := wait.For(r.Context(), time.Duration(m.random.IntN(300))*time.Second); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	status, body := m.list(resource, q.Get)
	if m.random.Float64() < m.fails {
		status, body = 503, failure(503, "ServiceUnavailable")
	}
	return answer(status, io.NopCloser(strings.NewReader(body)))
}

// list answers a list. A continue token is "revision/last name".
func (m *modelServer) list(resource string, query func(string) string) (status int, body string) {
	revision, after := m.now, ""
	if token := query("continue"); token != "" {
		version, last, _ := strings.Cut(token, "/")
		revision, _ = strconv.ParseUint(version, 10, 64)
		if after = last; version == "now" {
			revision = m.now
		}
	} else if query("resourceVersionMatch") == "Exact" {
		revision, _ = strconv.ParseUint(query("resourceVersion"), 10, 64)
	}
	switch {
	case revision < m.compacted && after != "":
		return 410, gone("now/" + after)
	case revision < m.compacted:
		return 410, gone("")
	case revision > m.now:
		return 504, tooLarge
	}
	limit, _ := strconv.Atoi(query("limit"))
	name := strings.TrimPrefix(query("fieldSelector"), "metadata.name=")
	var items []string
	rest, token := 0, ""
	for _, o := range m.writesAt(resource, revision) {
		switch {
		case o.name <= after || name != "" && o.name != name:
		case limit > 0 && len(items) == limit:
			rest++
		default:
			items, token = append(items, o.object()), fmt.Sprintf("%d/%s", revision, o.name)
		}
	}
	more := ""
	if rest > 0 {
		more = fmt.Sprintf(`,"continue":%q,"remainingItemCount":%d`, token, rest)
		if m.random.Float64() < m.writeChance {
			m.writeLocked(1+m.random.IntN(4), resource)
			if m.random.IntN(3) == 0 {
				m.compacted = m.now
			}
		}
	}
	return 200, fmt.Sprintf(`{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"%d"%s},"items":[%s]}`, revision, more, strings.Join(items, ","))
}

// initialEvents returns the events of a streaming list, which end at the version that is returned. As on servers before 1.34 objects may be
// written before its end. At random the server does not know such lists, and sends what is written from now on.
func (m *modelServer) initialEvents(resource string) (lines []string, until uint64) {
	if m.random.IntN(6) == 0 {
		return nil, m.now
	}
	from := m.now
	for _, o := range m.writesAt(resource, from) {
		lines = append(lines, `{"type":"ADDED","object":`+o.object()+"}\n")
	}
	m.random.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	if m.random.Float64() < m.writeChance {
		m.writeLocked(1+m.random.IntN(4), resource)
	}
	for _, w := range m.writes {
		if w.resource == resource && w.revision > from {
			lines = append(lines, m.event(w))
		}
	}
	return append(lines, initialEnd(strconv.FormatUint(m.now, 10))), m.now
}

// watch delivers what follows a revision, or all objects first, until the context ends or the watches are cut.
func (m *modelServer) watch(ctx context.Context, w io.Writer, resource string, from uint64, initial bool) {
	m.mu.Lock()
	cut := m.cut
	var lines []string
	if initial {
		if lines, from = m.initialEvents(resource); m.random.IntN(6) == 0 {
			lines, cut = lines[:m.random.IntN(len(lines)+1)], closedChannel
		}
	} else if from < m.compacted || m.random.Float64() < m.expires {
		lines, cut = []string{errorEvent(gone(""))}, closedChannel
	}
	m.mu.Unlock()
	for {
		for _, line := range lines {
			if _, err := io.WriteString(w, line); err != nil {
				return
			}
		}
		select {
		case <-cut:
			return
		default:
		}
		m.mu.Lock()
		lines, from = m.events(resource, from)
		changed := m.changed
		m.mu.Unlock()
		if len(lines) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-cut:
			return
		case <-ctx.Done():
			return
		}
	}
}

var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

var eventTypes = map[string]string{"c": "ADDED", "u": "MODIFIED", "d": "DELETED"}

// events returns what follows a revision, at times with an event that the client has already, and a bookmark.
func (m *modelServer) events(resource string, from uint64) (lines []string, until uint64) {
	if from >= m.now {
		return nil, from // also a revision that is not reached yet
	}
	for i, w := range m.writes {
		if w.resource != resource || w.revision <= from {
			continue
		}
		lines = append(lines, m.event(w))
		if m.random.Float64() < m.repeats {
			old := m.writes[m.random.IntN(i+1)]
			if old.resource == resource {
				lines = append(lines, m.event(old))
			}
		}
	}
	return append(lines, bookmark(strconv.FormatUint(m.now, 10))), m.now
}

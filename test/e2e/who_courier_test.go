package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// courier brings audit events from the API server's webhook to the exporters, like a bad network. A tenth of the events is lost,
// and a tenth comes twice. A third comes only by the webhook, a third only by a file, and the others by both. Half of the webhook's
// events come at once, the rest after all changes and in any order. A tenth is late: these come after all others, to readers that
// have read the rest. Their times are unchanged, so a reader takes them for events that needed an hour.
type courier struct {
	*httptest.Server
	seed   uint64
	honest bool // each event comes once, in time

	mu     sync.Mutex
	random *rand.Rand
	to     []string        // the exporters' endpoints
	seen   map[string]bool // the ids of the webhook's events
	held   []auditEvent
}

// auditEvent is an event of the API server's audit log.
type auditEvent struct {
	id, name  string
	annotated bool // the policy has annotated it
	raw       []byte
}

func newAuditEvent(raw []byte) auditEvent {
	return auditEvent{textAt(raw, "auditID"), textAt(raw, "objectRef name"), bytes.Contains(raw, []byte("/kubecdc-object")), bytes.Clone(raw)}
}

// way is how an event is brought.
type way struct {
	webhook, file bool // it is lost if neither is set
	times         int
	late, soon    bool
}

func newCourier(t *testing.T, seed uint64) *courier {
	c := &courier{seed: seed, random: rand.New(rand.NewPCG(seed, 99)), seen: map[string]bool{}}
	c.Server = httptest.NewServer(http.HandlerFunc(c.take))
	t.Cleanup(c.Close)
	return c
}

func (c *courier) bringTo(endpoint string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to = append(c.to, endpoint)
}

// bringToNobody forgets the exporters, which have ended.
func (c *courier) bringToNobody() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to = nil
}

// way returns how an event is brought, which follows from its id. The events of the test's own objects always come, and last.
func (c *courier) way(e auditEvent) way {
	if c.honest || strings.HasPrefix(e.name, "test-") {
		return way{file: true, times: 1}
	}
	h := fnv.New64a()
	fmt.Fprint(h, c.seed, e.id)
	n := rand.New(rand.NewPCG(c.seed, h.Sum64()))
	percent := n.IntN(100)
	w := way{webhook: percent >= 10 && percent < 40 || percent >= 70, file: percent >= 40, times: 1, late: n.IntN(10) == 0, soon: n.IntN(2) == 0}
	if n.IntN(10) == 0 {
		w.times = 2
	}
	return w
}

// take takes the API server's events, and answers when the exporters have the urgent ones. Otherwise the API server sends them
// again.
func (c *courier) take(answer http.ResponseWriter, r *http.Request) {
	var list struct{ Items []json.RawMessage }
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &list)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var soon, held []auditEvent
	for _, raw := range list.Items {
		e := newAuditEvent(raw)
		if w := c.way(e); w.webhook && w.soon && !w.late && len(c.to) > 0 {
			soon = append(soon, e)
		} else if w.webhook && !c.seen[e.id] {
			held = append(held, e)
		}
	}
	if err == nil {
		err = c.bring(soon)
	}
	if err != nil {
		http.Error(answer, err.Error(), http.StatusServiceUnavailable)
		return
	}
	c.held = append(c.held, held...)
	for _, raw := range list.Items {
		c.seen[textAt(raw, "auditID")] = true
	}
}

// bring brings events to the exporters in any order, each as often as its way says.
func (c *courier) bring(events []auditEvent) error {
	for _, to := range c.to {
		for batch := range slices.Chunk(c.mixed(events), 300) {
			status, err := postEvents(to, auditToken, string(bytes.Join(batch, []byte(","))))
			if err != nil {
				return err
			}
			if status != http.StatusOK {
				return fmt.Errorf("the exporter answers %d", status)
			}
		}
	}
	return nil
}

var anyCertificate = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// postEvents sends audit events to an exporter, and returns the status of its answer.
func postEvents(to, token, events string) (status int, err error) {
	body := `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[` + events + `]}`
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := anyCertificate.Do(request)
	if err != nil {
		return 0, err
	}
	answer.Body.Close()
	return answer.StatusCode, nil
}

func (c *courier) mixed(events []auditEvent) (all [][]byte) {
	for _, e := range events {
		for range c.way(e).times {
			all = append(all, e.raw)
		}
	}
	c.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// read reads the API server's audit log.
func (w *whoWorld) read(t *testing.T) (events []auditEvent) {
	t.Helper()
	text, err := os.ReadFile(w.events)
	must(t, err)
	for line := range bytes.Lines(text) {
		events = append(events, newAuditEvent(bytes.TrimSpace(line)))
	}
	return events
}

// deliver brings the delayed events, and the file's events with a rotation in the middle. With late it brings the late events, too.
// It returns when the logs have the events.
func (w *whoWorld) deliver(t *testing.T, late bool) {
	t.Helper()
	last := w.probe(t)
	events := w.read(t)
	Await(t, "the API server to have sent all its events", func() (bool, error) {
		w.courier.mu.Lock()
		defer w.courier.mu.Unlock()
		return !slices.ContainsFunc(events, func(e auditEvent) bool { return !w.courier.seen[e.id] }), nil
	})
	c := w.courier
	c.mu.Lock()
	defer c.mu.Unlock()
	timely := func(e auditEvent) bool { return c.way(e).late == late }
	must(t, c.bring(slices.DeleteFunc(slices.Clone(c.held), func(e auditEvent) bool { return !timely(e) })))
	shipped := c.mixed(slices.DeleteFunc(slices.Clone(events), func(e auditEvent) bool { return !c.way(e).file || !timely(e) && e.name != last }))
	end := slices.IndexFunc(shipped, func(raw []byte) bool { return textAt(raw, "objectRef name") == last })
	shipped[end], shipped[len(shipped)-1] = shipped[len(shipped)-1], shipped[end]
	file, old := filepath.Join(w.dir, "shipped.log"), filepath.Join(w.dir, "shipped-1.log")
	for i, half := range [][][]byte{shipped[:len(shipped)/2], shipped[len(shipped)/2:]} {
		if i > 0 {
			must(t, os.Rename(file, old))
		}
		f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		must(t, err)
		_, err = f.Write(append(bytes.Join(half, []byte("\n")), '\n'))
		must(t, err)
		must(t, f.Close())
	}
	w.awaitRecord(t, last)
}

// arrived returns the requests whose events were brought, and the acts of controllers with all events.
func (w *whoWorld) arrived(t *testing.T) map[string]bool {
	t.Helper()
	arrived := map[string]bool{}
	for _, e := range w.read(t) {
		way := w.courier.way(e)
		came := way.webhook || way.file
		arrived[e.id] = came
		if code := textAt(e.raw, "responseStatus code"); !strings.HasPrefix(code, "2") {
			continue
		}
		resource := textAt(e.raw, "objectRef resource")
		if group := textAt(e.raw, "objectRef apiGroup"); group != "" {
			resource += "." + group
		}
		key := act(textAt(e.raw, "user username"), textAt(e.raw, "verb"), resource, textAt(e.raw, "objectRef namespace"), e.name)
		if before, known := arrived[key]; known {
			came = came && before
		}
		arrived[key] = came
	}
	return arrived
}

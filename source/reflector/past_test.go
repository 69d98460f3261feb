package reflector_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/change"
)

// pastServer is an API server with a history, in memory. It answers requests for the past correctly, or in one of the ways in which a
// server may not. Its first watch gets a 410.
type pastServer struct {
	writes  []write
	now     uint64
	lie     string // see the tests
	secret  bool   // APIServices may not be read
	watched bool
	expires bool   // each watch is told 410
	tells   string // what each watch delivers after the first one
	odd     int    // the request with this number gets an answer that is no list, as of a proxy

	mu       sync.Mutex
	requests int
}

// write is "name uid version" from the revision on, or the end of name.
type write struct {
	revision uint64
	object   string
	deleted  bool
}

func (p *pastServer) objectsAt(revision uint64) map[string]string {
	objects := map[string]string{}
	for _, w := range p.writes {
		if name := strings.Fields(w.object)[0]; w.revision <= revision && w.deleted {
			delete(objects, name)
		} else if w.revision <= revision {
			objects[name] = w.object
		}
	}
	return objects
}

func (p *pastServer) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	q := r.URL.Query()
	answer := func(status int, body string) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
			Body: io.NopCloser(strings.NewReader(body)), ProtoMajor: 1, ProtoMinor: 1}, nil
	}
	switch {
	case p.requests == p.odd:
		return answer(200, `{"error":"no upstream"}`)
	case p.secret && strings.HasPrefix(r.URL.Path, "/apis/apiregistration.k8s.io/"):
		return answer(403, failure(403, "Forbidden"))
	case strings.HasPrefix(r.URL.Path, "/apis/apiregistration.k8s.io/"):
		service := `{"metadata":{"name":"v1.other.example.com","uid":"s","resourceVersion":"1"},"spec":{"service":{"name":"other","namespace":"default"}}}`
		if strings.HasSuffix(r.URL.Path, "/apiservices") {
			service = `{"metadata":{"resourceVersion":"1"},"items":[` + service + `]}`
		}
		return answer(200, service)
	case q.Get("watch") != "" && (!p.watched || p.expires):
		p.watched = true
		return answer(410, gone(""))
	case q.Get("watch") != "" || p.requests > 2000:
		body, w := io.Pipe()
		go func() { _, _ = io.WriteString(w, p.tells) }()
		context.AfterFunc(r.Context(), func() { w.CloseWithError(r.Context().Err()) })
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body, Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
	}
	return answer(200, p.list(q.Get("resourceVersion"), q.Get("resourceVersionMatch") == "Exact", strings.TrimPrefix(q.Get("fieldSelector"), "metadata.name="), q.Get("limit") == "1"))
}

func (p *pastServer) list(version string, exact bool, name string, one bool) string {
	revision, _ := strconv.ParseUint(version, 10, 64)
	if !exact {
		revision = p.now
	}
	shown, counted := revision, revision
	switch {
	case p.lie == "ignores exact" && exact:
		revision, shown, counted = p.now, p.now, p.now
	case p.lie == "ignores exact, echoes the version" && exact:
		revision, counted = p.now, p.now
	case p.lie == "counts what is there now":
		counted = p.now
	}
	var items []string
	for n, o := range p.objectsAt(revision) {
		if name == "" || n == name {
			items = append(items, obj(o))
		}
	}
	slices.Sort(items)
	meta := fmt.Sprintf(`"resourceVersion":"%d"`, shown)
	if p.lie == "composite versions" {
		meta = fmt.Sprintf(`"resourceVersion":"%d/1"`, shown)
	}
	if one && len(items) > 1 && name == "" {
		items = items[:1]
		meta += fmt.Sprintf(`,"continue":"more","remainingItemCount":%d`, len(p.objectsAt(counted))-1)
	}
	return `{"kind":"List","apiVersion":"v1","metadata":{` + meta + `},"items":[` + strings.Join(items, ",") + `]}`
}

var gadgets = change.Resource{Group: "other.example.com", Version: "v1", Plural: "gadgets", Kind: "Gadget", Namespaced: true}

// recover runs a stream of the resource over the 410 at version 100, where the log has a and b.
func (p *pastServer) recover(t *testing.T, r change.Resource) (*ledger, change.Gap) {
	t.Helper()
	l := resumed("100", "a a 90", "b b 95")
	options := testOptions()
	options.PageSize = 500
	startStream(t, &rest.Config{Host: "http://past", Transport: p, QPS: -1}, change.NewStream(r, "", "", ""), options, l, &quietObserver{})
	l.awaitPosition(t, strconv.FormatUint(p.now, 10))
	l.mu.Lock()
	defer l.mu.Unlock()
	return l, onlyGap(t, l)
}

// A server that does not read the past as it is asked is found out, and not asked for ever.
func TestAServerThatIgnoresExactIsNotRecoveredFrom(t *testing.T) {
	for _, lie := range []string{"ignores exact", "ignores exact, echoes the version"} {
		t.Run(lie, func(t *testing.T) {
			p := &pastServer{now: 140, lie: lie, writes: []write{{90, "a a 90", false}, {95, "b b 95", false},
				{110, "a a 110", false}, {120, "c c 120", false}, {130, "b b 95", true}}}
			l, gap := p.recover(t, configMaps)
			expect(t, l, "u a@110? c c@120? d b@95? at 140")
			p.mu.Lock()
			defer p.mu.Unlock()
			if gap.Complete || gap.Inferred != 3 || p.requests > 20 {
				t.Errorf("gap record %+v after %d requests, want it incomplete after a few", gap, p.requests)
			}
		})
	}
}

// An aggregated server has a store of its own: there a revision may write several keys, and remainingItemCount may be of
// another revision. What came and went behind either is found, or the gap does not say that it is complete.
func TestAForeignStoreHidesNothingFromAGap(t *testing.T) {
	known := []write{{90, "a a 90", false}, {95, "b b 95", false}}
	for name, p := range map[string]*pastServer{
		"two keys at a revision": {writes: append(known, write{110, "a a 110", false}, write{110, "x x 110", false},
			write{120, "a a 120", false}, write{120, "x x 110", true})},
		"counts what is there now": {lie: "counts what is there now", writes: append(known, write{110, "x x 110", false}, write{115, "a a 115", false},
			write{118, "a a 118", false}, write{120, "x x 110", true})},
		"nobody may know that it is foreign": {lie: "counts what is there now", secret: true, writes: append(known, write{110, "x x 110", false},
			write{120, "x x 110", true})},
	} {
		t.Run(name, func(t *testing.T) {
			p.now = 140
			l, gap := p.recover(t, gadgets)
			if records := says(l); gap.Complete && !(strings.Contains(records, "c x@110") && strings.Contains(records, "d x@120")) {
				t.Errorf("the log says %q and %+v: x came and went", records, gap)
			}
			t.Logf("%s; complete %v %s", says(l), gap.Complete, gap.Reason)
		})
	}
}

// Lists don't help against a server that answers each watch with 410: it is not asked as fast as it can answer.
func TestAServerThatAlwaysAnswers410IsSpared(t *testing.T) {
	for _, lie := range []string{"", "ignores exact"} {
		synctest.Test(t, func(t *testing.T) {
			p := &pastServer{now: 140, lie: lie, expires: true, writes: []write{{90, "a a 90", false}, {95, "b b 95", false}, {110, "a a 110", false}}}
			l := resumed("100", "a a 90", "b b 95")
			l.moved = make(chan struct{}) // the channel belongs to this bubble
			options := testOptions()
			_, stop := startOn(t, &rest.Config{Host: "http://past", Transport: p, QPS: -1}, options, l, &quietObserver{})
			time.Sleep(10 * time.Second)
			_ = stop()
			if p.requests > 200 {
				t.Errorf("%d requests in 10 s", p.requests)
			}
			t.Logf("%q: %d requests in 10 s, position %s", lie, p.requests, l.position)
		})
	}
}

// An answer of a proxy in a recovery passes, as other failures do: it does not turn the recovery into a comparison.
func TestOneOddAnswerDoesNotEndARecovery(t *testing.T) {
	for odd := 1; odd <= 12; odd++ {
		synctest.Test(t, func(t *testing.T) {
			p := &pastServer{now: 140, odd: odd, writes: []write{{90, "a a 90", false}, {95, "b b 95", false},
				{110, "a a 110", false}, {115, "c c 115", false}, {120, "a a 120", false}, {125, "c c 115", true}, {130, "b b 95", true}}}
			l := resumed("100", "a a 90", "b b 95")
			l.moved = make(chan struct{}) // the channel belongs to this bubble
			options := testOptions()
			_, stop := startOn(t, &rest.Config{Host: "http://past", Transport: p, QPS: -1}, options, l, &quietObserver{})
			time.Sleep(time.Minute)
			_ = stop()
			if p.requests <= odd {
				t.Fatalf("%d requests", p.requests)
			}
			if gap := onlyGap(t, l); !gap.Complete {
				t.Errorf("an odd answer to request %d: %+v", odd, gap)
			}
		})
	}
}

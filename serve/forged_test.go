package serve

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/test/servers"
)

// written serves a log of Pods and Nodes in batches. It returns a function that writes a batch.
func written(t *testing.T, wrap func(sinks.Reader) sinks.Reader) (p *past, write func(version string, controls []change.Control, changes ...change.Change)) {
	log, reader := sqliteLog(t)
	nodes := change.NewStream(change.Resource{Version: "v1", Plural: "nodes", Kind: "Node"}, "", "", "")
	seq := uint64(0)
	write = func(version string, controls []change.Control, changes ...change.Change) {
		seq++
		b := &change.Batch{Epoch: 1, Seq: seq, Changes: changes, Controls: controls}
		for _, id := range []change.StreamID{pods.ID(), nodes.ID()} {
			if b.Positions = append(b.Positions, change.Position{Stream: id, ResourceVersion: change.ResourceVersion(version), Time: time.Now()}); seq == 1 {
				b.Controls = append(b.Controls, change.SnapshotBeginControl(id, ""))
			}
		}
		_, err := log.Write(t.Context(), b)
		ok(t, err)
	}
	return &past{server: New(wrap(reader), nil, slog.New(slog.DiscardHandler))}, write
}

func itself(r sinks.Reader) sinks.Reader { return r }

// pod is a change of a Pod, whose body is as large as more.
func pod(op change.Op, name, version, gap, more string) change.Change {
	c := change.Change{Stream: pods, Op: op, Namespace: "default", Name: name, UID: name, ResourceVersion: change.ResourceVersion(version), Time: time.Now(), Inferred: gap != "", Gap: gap}
	body := fmt.Appendf(nil, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":"default","resourceVersion":%q,"annotations":{"more":%q}}}`, name, version, more)
	if c.After = body; op != change.Create {
		c.Before = body
	}
	if op == change.Delete {
		c.After = nil
	}
	return c
}

// Requests that no client sends get a client's error, or an answer that is right.
func TestForgedRequests(t *testing.T) {
	p, write := written(t, itself)
	write("6", nil, pod(change.Create, "a", "5", "", ""), pod(change.Create, "b", "6", "", ""))
	token := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for path, want := range map[string]int{
		"/at/6/api/v1/pods": 200, "/at/00/api/v1/pods": 400, "/at//api/v1/pods": 400, "/at/%00/api/v1/pods": 400, "/at/-1h/api/v1/pods": 400, "/at/1000y/api/v1/pods": 400,
		"/at/0001-01-01T00:00:00Z/api/v1/pods": 410, "/at/0000-01-01T00:00:00Z/api/v1/pods": 410, "/at/9999-12-31T23:59:59Z/api/v1/pods": 400,
		"/at/99999999999999999999999999999999/api/v1/pods": 200, "/at/checkpoint/0/18446744073709551615/api/v1/pods": 410, "/at/checkpoint/0": 400, "/at/checkpoint/0/1/api/v1/pods": 200,
		"/at/checkpoint/99999999999999999999/1/api/v1/pods": 400, "/at": 404, "/at/6": 404,
		"/api/v1/namespaces/a%00b/pods": 404, "/api/v1/namespaces/a%FFb/pods": 404, "/api/v1/pods?fieldSelector=metadata.name%3D%00": 404, "/api/v1/namespaces/default/pods/%00": 404,
		"/api/v1/pods/a": 404, "/api/v1/namespaces/default/nodes": 404, "/api/v1/namespaces/default/nodes/a": 404, "/api/v1/namespaces/default/pods/a": 200,
		"/api/v1/pods?fieldSelector=metadata.name%3Da%2Cmetadata.name%3Db": 200, `/api/v1/pods?fieldSelector=metadata.name%3Da%5C%2Cb`: 200,
		"/api/v1/pods?resourceVersion=00": 400, "/api/v1/pods?resourceVersion=6%00": 400, "/api/v1/pods?limit=99999999999999999999": 400, "/api/v1/pods?limit=9223372036854775807": 200,
		"/api/v1/pods?watch=1&timeoutSeconds=x":                                                                    400,
		"/api/v1/pods?continue=" + token(`{"Resource":"pods","Moment":"resourceVersion 5"}`):                       410,
		"/at/6/api/v1/pods?continue=" + token(`{"Resource":"pods","Moment":"the end of time"}`):                    410,
		"/at/6/api/v1/pods?continue=" + token(`{"Resource":"pods","Moment":"resourceVersion 6","After":"\u0000"}`): 400,
		"/at/6/api/v1/pods?continue=" + token(`{"Resource":"pods","Moment":"resourceVersion 6","After":"zz"}`):     200,
		"/at/6/api/v1/pods?continue=" + token(`[]`):                                                                400,
	} {
		if a := p.ours(path, asObjects); a.code != want {
			t.Errorf("%s: %d, want %d: %.300s", path, a.code, want, a.body)
		}
	}
}

// An answer that may lack many objects names some of them, and a gap whose changes are large is not held in memory.
func TestWhatIsMissingIsBounded(t *testing.T) {
	p, write := written(t, itself)
	var created, deleted []change.Change
	for i := range 150 {
		name := fmt.Sprint("x", i)
		created, deleted = append(created, pod(change.Create, name, fmt.Sprint(i+1), "", "")), append(deleted, pod(change.Delete, name, fmt.Sprint(i+1), "g", ""))
	}
	write("200", nil, created...)
	write("300", []change.Control{change.GapControl(pods.ID(), "300", change.Gap{ID: "g", From: "200", To: "300", Deleted: 150}, "")}, deleted...)
	a := p.ours("/at/250/api/v1/pods", asObjects)
	if n := len(a.warnings); n < 10 || !strings.Contains(a.warnings[n-1], fmt.Sprintf("%d more reasons", 151-(n-1))) {
		t.Errorf("%d warnings: %.300q, %s", len(a.warnings), a.warnings, a.warnings[len(a.warnings)-1])
	}
	large := strings.Repeat("x", mostBytes/4)
	write("301", nil, pod(change.Create, "large", "301", "", large))
	write("302", nil, pod(change.Update, "large", "310", "h", large), pod(change.Update, "large", "320", "h", large))
	if a := p.ours("/api/v1/pods?watch=1&timeoutSeconds=5&resourceVersion=301", asObjects); !strings.Contains(string(a.body), `"code":410`) {
		t.Errorf("a watch of large changes: %d bytes, %.300s", len(a.body), a.body)
	}
}

// slowly reads no change before its channel is closed.
type slowly struct {
	sinks.Reader
	reading *atomic.Int64
	goOn    chan struct{}
}

func (s slowly) Changes(ctx context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	s.reading.Add(1)
	defer s.reading.Add(-1)
	select {
	case <-s.goOn:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.Reader.Changes(ctx, q, visit)
}

// Clients that ask for many moments and leave take no more than some places, and give them back.
func TestClientsThatLeave(t *testing.T) {
	slow := slowly{reading: &atomic.Int64{}, goOn: make(chan struct{})}
	p, write := written(t, func(r sinks.Reader) sinks.Reader { slow.Reader = r; return slow })
	write("6", nil, pod(change.Create, "a", "5", "", ""))
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan struct{}, 3*mostReads)
	for i := range cap(gone) {
		go func() {
			p.server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, fmt.Sprintf("/at/%d/api/v1/pods?limit=1", i+1), nil).WithContext(ctx))
			gone <- struct{}{}
		}()
	}
	servers.Await(t, "readings", func() (bool, error) { return slow.reading.Load() >= mostReads, nil })
	leave()
	for range cap(gone) {
		<-gone
	}
	if n := slow.reading.Load(); n > mostReads {
		t.Errorf("%d readings go on", n)
	}
	close(slow.goOn)
	if a := p.ours("/at/6/api/v1/pods", asObjects); a.code != http.StatusOK {
		t.Errorf("after them: %d %s", a.code, a.body)
	}
}

// stuck is a client that reads nothing of an answer before goOn is closed.
type stuck struct {
	*httptest.ResponseRecorder
	writing *atomic.Int64
	goOn    chan struct{}
}

func (s stuck) Write(part []byte) (int, error) {
	s.writing.Add(1)
	<-s.goOn
	return s.ResponseRecorder.Write(part)
}

func (s stuck) Unwrap() http.ResponseWriter { return s.ResponseRecorder }

// Clients that read no answer keep a bounded number of long lists in memory. Meanwhile pages and objects are answered, and a client that
// waits for a long list may leave.
func TestLongListsInMemoryAreBounded(t *testing.T) {
	p, write := written(t, itself)
	write("6", nil, pod(change.Create, "a", "5", "", ""))
	client := stuck{writing: &atomic.Int64{}, goOn: make(chan struct{})}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	answered := make(chan int, mostLists+2)
	ask := func(path string) {
		own := client
		own.ResponseRecorder = httptest.NewRecorder()
		p.server.ServeHTTP(own, httptest.NewRequest(http.MethodGet, path, nil).WithContext(ctx))
		answered <- own.Code
	}
	for range mostLists / 2 {
		go ask("/api/v1/pods")
		go ask("/api/v1/pods?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
	}
	servers.Await(t, "lists that nobody reads", func() (bool, error) { return client.writing.Load() == mostLists, nil })
	short, impatient := context.WithCancel(t.Context())
	go func() {
		p.server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil).WithContext(short))
		answered <- 0
	}()
	for _, path := range []string{"/api/v1/pods?limit=500", "/api/v1/namespaces/default/pods/a"} {
		if a := p.ours(path, asObjects); a.code != http.StatusOK {
			t.Errorf("%s: %d %s", path, a.code, a.body)
		}
	}
	select {
	case code := <-answered:
		t.Errorf("one more list was answered: %d", code)
	default:
	}
	impatient()
	if code := <-answered; code != 0 {
		t.Errorf("a list that nobody reads has ended: %d", code)
	}
	close(client.goOn)
	for range mostLists {
		if code := <-answered; code != http.StatusOK {
			t.Errorf("a list has the code %d", code)
		}
	}
	if a := p.ours("/api/v1/pods", asObjects); a.code != http.StatusOK {
		t.Errorf("after them: %d %s", a.code, a.body)
	}
}

package serve

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/internal/web"
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
		"/at/6/api/v1/pods": 200, "/at/00/api/v1/pods": 400, "/at//api/v1/pods": 400, "/at/%00/api/v1/pods": 400, "/at/-x/api/v1/pods": 400, "/at/1000y/api/v1/pods": 400,
		"/at/0001-01-01T00:00:00Z/api/v1/pods": 410, "/at/0000-01-01T00:00:00Z/api/v1/pods": 410, "/at/9999-12-31T23:59:59Z/api/v1/pods": 400,
		"/at/99999999999999999999999999999999/api/v1/pods": 200, "/at/checkpoint/0/18446744073709551615/api/v1/pods": 410, "/at/checkpoint/0": 400, "/at/checkpoint/0/1/api/v1/pods": 200,
		"/at/checkpoint/99999999999999999999/1/api/v1/pods": 400, "/at": 404, "/at/6": 200,
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

// Clients of one user that ask for many moments and leave take no more than half of the places, and give them back.
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
	servers.Await(t, "readings", func() (bool, error) { return slow.reading.Load() >= mostReads/2, nil })
	leave()
	for range cap(gone) {
		<-gone
	}
	if n := slow.reading.Load(); n > mostReads/2 {
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

// requestAs returns a request of a user.
func requestAs(ctx context.Context, user string, path string) *http.Request {
	return httptest.NewRequest(http.MethodGet, path, nil).WithContext(web.As(ctx, user))
}

// Clients that read no answer have a bounded part of the memory, in whatever way they ask. Meanwhile another user's lists are answered, with
// limit and without, and a client that waits may leave. A page ends where its memory ends, and the next one goes on there.
func TestAnswersInMemoryAreBounded(t *testing.T) {
	const objects, size = 60, 400_000
	p, write := written(t, itself)
	var created []change.Change
	for i := range objects {
		created = append(created, pod(change.Create, fmt.Sprintf("p%02d", i), fmt.Sprint(i+1), "", strings.Repeat("x", size)))
	}
	write("100", nil, created...)
	client := stuck{writing: &atomic.Int64{}, goOn: make(chan struct{})}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	ask := []string{"/api/v1/pods", "/api/v1/pods?limit=1000", "/at/100/api/v1/pods", "/api/v1/namespaces/default/pods/p07", "/api/v1/pods?fieldSelector=metadata.name%3Dp01",
		"/api/v1/pods?watch=1&timeoutSeconds=60&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"}
	const clients = 120
	answered := make(chan *httptest.ResponseRecorder, clients)
	for i := range clients {
		go func() {
			own := client
			own.ResponseRecorder = httptest.NewRecorder()
			defer func() {
				_ = recover() // an answer that was cut
				answered <- own.ResponseRecorder
			}()
			p.server.ServeHTTP(own, requestAs(ctx, "hostile", ask[i%len(ask)]))
		}()
	}
	held := func(user string) int64 { return p.server.views.memory.Held(user) }
	servers.Await(t, "answers that nobody reads", func() (bool, error) { return client.writing.Load() > 1 && held("hostile") > mostMemory/3, nil })
	if n := held("hostile"); n > mostMemory/2 {
		t.Errorf("%d MB are in memory for a user", n>>20)
	}
	short, impatient := context.WithCancel(ctx)
	impatient()
	p.server.ServeHTTP(httptest.NewRecorder(), requestAs(short, "hostile", "/api/v1/pods"))
	want := strings.Join(listedNames(p, "", ""), " ")
	if n := len(strings.Fields(want)); n != objects {
		t.Fatalf("%d objects are listed", n)
	}
	pages, continued := []string{}, ""
	for {
		names := listedNames(p, "limit=1000", continued)
		pages, continued = append(pages, names[:len(names)-1]...), names[len(names)-1]
		if continued == "" {
			break
		}
	}
	if got := strings.Join(pages, " "); got != want {
		t.Errorf("pages have %s, and the list has %s", got, want)
	}
	close(client.goOn)
	leave()
	for range clients {
		<-answered
	}
	if n := held("hostile") + held("honest"); n != 0 {
		t.Errorf("%d bytes are not given back", n)
	}
}

// listedNames lists Pods for an honest user. With a limit the last name is the continue token.
func listedNames(p *past, limit, continued string) (names []string) {
	w := httptest.NewRecorder()
	p.server.ServeHTTP(w, requestAs(context.Background(), "honest", "/api/v1/pods?"+limit+"&continue="+continued))
	var list struct {
		Metadata struct{ Continue string }
		Items    []struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != http.StatusOK {
		panic(fmt.Sprint(w.Code, err, w.Body.String()[:min(w.Body.Len(), 300)]))
	}
	for _, o := range list.Items {
		names = append(names, o.Metadata.Name)
	}
	if limit != "" {
		names = append(names, list.Metadata.Continue)
	}
	return names
}

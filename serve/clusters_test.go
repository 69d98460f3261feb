package serve

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/internal/web"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
)

// One log has several clusters, and one of them has a name with slashes. Each is served under its name to bearers with rights, and an
// unknown cluster is refused. While one log takes long to open, the others answer.
func TestClustersOfALog(t *testing.T) {
	const arn = "arn:aws:eks:eu-west-1:1:cluster/shop"
	file := must[*sqlitefile.File](t)(sqlitefile.Own(t.Context(), filepath.Join(t.TempDir(), "log")))
	for _, name := range []string{"one", arn} {
		sink := must[*sqlite.Sink](t)(sqlite.New(t.Context(), file, sqlite.Config{Cluster: name, ClusterUID: name}))
		opened := must[*sinks.Opened](t)(sink.Open(t.Context(), 0, 1, sinks.Durable{New: true}))
		t.Cleanup(func() { opened.Log.Close() })
		_, err := opened.Log.Write(t.Context(), &change.Batch{Epoch: 1, Seq: 1, Controls: []change.Control{change.SnapshotBeginControl(pods.ID(), "")},
			Positions: []change.Position{{Stream: pods.ID(), ResourceVersion: "7", Time: time.Now()}},
			Changes: []change.Change{{Stream: pods, Op: change.Read, Namespace: "default", Name: "web", UID: "u", ResourceVersion: "7", Time: time.Now(),
				After: []byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","namespace":"default","labels":{"of":"` + name + `"}}}`)}}})
		ok(t, err)
	}
	opened, opening, proceed := 0, make(chan bool), make(chan bool)
	open := func(name string) (sinks.ReadCloser, error) {
		if name == "slow" {
			opening <- true
			<-proceed
		}
		if opened++; name != "one" && name != arn {
			return nil, sinks.ErrNoCluster
		}
		return sqlite.NewReader(t.Context(), must[*sqlitefile.File](t)(sqlitefile.Share(t.Context(), file.Path())), name)
	}
	reader := must[*sqlite.Reader](t)(sqlite.NewReader(t.Context(), file, "one"))
	ask := func(s http.Handler, path string) (int, string) {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	s := NewClusters(reader, nil, slog.New(slog.DiscardHandler), open)
	defer s.Close()
	var slow sync.WaitGroup
	slow.Go(func() { ask(s, "/clusters/slow/api/v1/pods") })
	<-opening
	for path, want := range map[string]string{"": "one", "/clusters/one": "one", "/clusters/" + arn: arn, "/clusters/" + url.PathEscape(arn): arn,
		"/clusters/" + arn + "/at/7": arn} {
		if code, text := ask(s, path+"/api/v1/namespaces/default/pods/web"); code != http.StatusOK || !strings.Contains(text, `"of":"`+want+`"`) {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	close(proceed)
	slow.Wait()
	if code, text := ask(s, "/clusters/none/api/v1/pods"); code != http.StatusNotFound || !strings.Contains(text, `"kind":"Status"`) || !strings.Contains(text, `none`) {
		t.Errorf("a cluster that the log does not have: %d %s", code, text)
	}
	opened = 0
	for _, path := range []string{"/clusters/one%00", "/clusters/%00/at/7", "/clusters//", "/clusters"} {
		if code, text := ask(s, path+"/api/v1/pods"); code != http.StatusNotFound || strings.Contains(text, "InternalError") {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	opened = 0
	closed := NewClusters(reader, web.FileToken{Path: "none"}, slog.New(slog.DiscardHandler), open)
	if code, text := ask(closed, "/clusters/one/api/v1/pods"); code != http.StatusUnauthorized || opened > 0 {
		t.Errorf("without a token: %d, %d logs were opened: %s", code, opened, text)
	}
}

type panicking struct{ sinks.Reader }

func (panicking) Resources(context.Context) ([]string, error) { panic("on purpose") }

// A panic is logged, and the connection is cut, since a part of the answer may have been sent.
func TestAPanicIsLogged(t *testing.T) {
	var log bytes.Buffer
	web := httptest.NewServer(New(panicking{}, nil, slog.New(slog.NewTextHandler(&log, nil))))
	answer, err := http.Get(web.URL + "/api/v1/pods")
	if err == nil {
		answer.Body.Close()
		t.Errorf("the answer is %s", answer.Status)
	}
	web.Close()
	for _, want := range []string{"level=ERROR", "path=/api/v1/pods", "on purpose", "clusters_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s: %s", want, log.String())
		}
	}
}

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/child"
	"kubecdc/test/e2e"
)

// Several clusters have logs in a folder, and one file has the logs of two. A login is for the file that was opened. The others are served only on
// request, and an unknown cluster tells nothing of the machine.
func TestOnlyTheOpenedLogIsServed(t *testing.T) {
	home := t.TempDir()
	folder := filepath.Join(home, "kubecdc")
	mustDo(t, os.Mkdir(folder, 0o700))
	for name, file := range map[string]string{"mine": "mine", "replayed": "mine", "secret": "secret"} {
		writeLog(t, filepath.Join(folder, file+"-sqlite.db"), name)
	}
	mustDo(t, os.WriteFile(filepath.Join(folder, "broken-sqlite.db"), []byte("no database, but of some length"), 0o600))
	token := filepath.Join(home, "token")
	mustDo(t, os.WriteFile(token, []byte("a-token-of-some-length"), 0o600))
	for _, c := range []struct {
		args, settings string
		want           map[string]int
	}{
		{"", "KUBECDC_HTTP_ACCESS=token", map[string]int{"mine": 200, "replayed": 200, "secret": 404, "none": 404, "broken": 404}},
		{"", "KUBECDC_HTTP_ACCESS=open", map[string]int{"mine": 200, "replayed": 200, "secret": 404, "none": 404}},
		{"--all-logs", "KUBECDC_HTTP_ACCESS=token", map[string]int{"mine": 200, "secret": 200, "none": 404, "broken": 500}},
	} {
		s := exec.Command(os.Args[0], strings.Fields("serve --address 127.0.0.1:0 "+c.args)...)
		s.Env = append(child.Environ(), "TEST_AS_EXPORTER=1", "XDG_STATE_HOME="+home, "KUBECDC_CLUSTER=mine", "KUBECDC_SINK=sqlite", c.settings)
		if strings.HasSuffix(c.settings, "token") {
			s.Env = append(s.Env, "KUBECDC_HTTP_TOKEN_FILE="+token)
		}
		var text child.Output
		s.Stderr = &text
		mustDo(t, s.Start())
		address := ""
		e2e.Await(t, "exporter serve to listen", func() (bool, error) {
			found := regexp.MustCompile(`http://127.0.0.1:\d+`).FindString(text.String())
			address = found
			return strings.Contains(text.String(), found+"/at/") && found != "", nil
		})
		for cluster, want := range c.want {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/clusters/"+cluster+"/api/v1/pods", nil)
			mustDo(t, err)
			r.Header.Set("Authorization", "Bearer a-token-of-some-length")
			answer, err := http.DefaultClient.Do(r)
			mustDo(t, err)
			body, err := io.ReadAll(answer.Body)
			mustDo(t, err)
			answer.Body.Close()
			if answer.StatusCode != want || strings.Contains(string(body), home) || want == 200 && !strings.Contains(string(body), "of-"+cluster) {
				t.Errorf("%s %s: cluster %s: %s %s", c.settings, c.args, cluster, answer.Status, body)
			}
		}
		_ = s.Process.Kill()
		_ = s.Wait()
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	must(t, err)
}

// writeLog writes a log of a cluster with a Pod.
func writeLog(t *testing.T, path, cluster string) {
	file, err := sqlitefile.Own(t.Context(), path)
	mustDo(t, err)
	defer file.Close()
	sink, err := sqlite.New(t.Context(), file, sqlite.Config{Cluster: cluster, ClusterUID: cluster})
	mustDo(t, err)
	opened, err := sink.Open(t.Context(), 0, 1, sinks.Durable{New: true})
	mustDo(t, err)
	pods := change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")
	_, err = opened.Log.Write(t.Context(), &change.Batch{Epoch: 1, Seq: 1, Controls: []change.Control{change.SnapshotBeginControl(pods.ID(), "")},
		Positions: []change.Position{{Stream: pods.ID(), ResourceVersion: "7", Time: time.Now()}},
		Changes: []change.Change{{Stream: pods, Op: change.Read, Namespace: "default", Name: "web", UID: "u", ResourceVersion: "7", Time: time.Now(),
			After: fmt.Appendf(nil, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"of-%s","namespace":"default"}}`, cluster)}}})
	mustDo(t, err)
	opened.Log.Close()
}

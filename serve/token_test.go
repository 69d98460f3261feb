package serve

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
)

// A client that may list Pods gets no Secrets by the token of another list.
func TestATokenContinuesItsOwnListAlone(t *testing.T) {
	secrets := change.NewStream(change.Resource{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}, "", "", "")
	log, reader := sqliteLog(t)
	b := change.Batch{Epoch: 1, Seq: 1}
	for i, stream := range []*change.Stream{pods, secrets} {
		b.Controls = append(b.Controls, change.SnapshotBeginControl(stream.ID(), ""))
		b.Positions = append(b.Positions, change.Position{Stream: stream.ID(), ResourceVersion: "9", Time: time.Now()})
		for n := range 3 {
			name, version := fmt.Sprint("x", n), change.VersionOf(uint64(1+3*i+n))
			b.Changes = append(b.Changes, change.Change{Stream: stream, Op: change.Create, Namespace: "default", Name: name, UID: fmt.Sprint(stream.ID(), n), Time: time.Now(),
				ResourceVersion: version, After: fmt.Appendf(nil, `{"kind":%q,"apiVersion":"v1","metadata":{"name":%q,"namespace":"default"}}`, stream.Resource.Kind, name)})
		}
	}
	_, err := log.Write(t.Context(), &b)
	ok(t, err)
	p := &past{server: New(reader, nil, slog.New(slog.DiscardHandler))}
	for _, listed := range []string{"/api/v1/pods", "/api/v1/namespaces/default/pods", "/at/9/api/v1/pods"} {
		first := p.ours(listed+"?limit=1", asObjects)
		_, token, _ := strings.Cut(string(first.body), `"continue":"`)
		token, _, _ = strings.Cut(token, `"`)
		for _, path := range []string{"/api/v1/pods", "/api/v1/namespaces/default/pods", "/api/v1/secrets", "/api/v1/namespaces/default/secrets"} {
			want := http.StatusBadRequest
			if strings.HasSuffix(listed, path) {
				want = http.StatusOK
			}
			if a := p.ours(path+"?continue="+token, asObjects); a.code != want {
				t.Errorf("%s with the token of %s: %d %s", path, listed, a.code, a.body)
			}
		}
	}
}

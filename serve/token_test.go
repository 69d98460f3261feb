package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"

	"kubecdc/change"
	"kubecdc/internal/web"
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

// revocable allows everything until it has another error.
type revocable struct{ err atomic.Pointer[error] }

func (a *revocable) Allow(context.Context, string, web.Asked) error {
	if err := a.err.Load(); err != nil {
		return *err
	}
	return nil
}

// A watch ends soon after its client has lost the right to it, and goes on while nobody can say.
func TestAWatchEndsWithItsRight(t *testing.T) {
	_, reader := sqliteLog(t)
	for lost, want := range map[error]int32{web.ErrNotAllowed: http.StatusForbidden, web.ErrUnknownToken: http.StatusUnauthorized, errors.New("the API server is away"): 0} {
		access := &revocable{}
		s := New(reader, access, slog.New(slog.DiscardHandler))
		s.reviewed = time.Millisecond
		q := everything()
		q.plural, q.Watch = "pods", true
		r := httptest.NewRequest(http.MethodGet, "/api/v1/pods?watch=1", nil)
		r.Header.Set("Authorization", "Bearer any")
		ctx, cancel := context.WithCancel(t.Context())
		w := &watcher{Server: s, q: q, w: httptest.NewRecorder(), may: func() error { return s.may(r, q, q.asked()) }}
		ended := make(chan error, 1)
		go func() { ended <- w.writeAll(ctx, nil, nil) }()
		access.err.Store(&lost)
		if want == 0 {
			select {
			case err := <-ended:
				t.Errorf("%v: the watch ends with %v", lost, err)
			case <-time.After(50 * time.Millisecond):
			}
			cancel()
			<-ended
			continue
		}
		if err := <-ended; s.statusOf(err).Code != want {
			t.Errorf("%v: the watch ends with %v", lost, err)
		}
		cancel()
	}
}

// unknown allows everything, and can't say who the user is.
type unknown struct{ err error }

func (unknown) Allow(context.Context, string, web.Asked) error { return nil }
func (u unknown) Who(*http.Request) (authentication.UserInfo, error) {
	return authentication.UserInfo{}, u.err
}
func (unknown) Forward(*http.Request, string, any) error { return nil }

// A user whose token or right ended between two questions gets a client's error.
func TestWhoIsRefusedAsOthers(t *testing.T) {
	_, reader := sqliteLog(t)
	for err, want := range map[error]int{web.ErrNotAllowed: http.StatusForbidden, web.ErrUnknownToken: http.StatusUnauthorized, errors.New("away"): http.StatusServiceUnavailable} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", strings.NewReader("{}"))
		r.Header.Set("Authorization", "Bearer any")
		New(reader, unknown{err: err}, slog.New(slog.DiscardHandler)).ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%v: %d %s", err, w.Code, w.Body)
		}
	}
}

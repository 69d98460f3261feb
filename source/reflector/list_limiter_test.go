package reflector_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/reflector"
)

// slowServer takes a second for each list, for ever for those of resources named hangs, and counts those under way.
type slowServer struct {
	mu                 sync.Mutex
	now, most, watches int
}

func (s *slowServer) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "/customresourcedefinitions/") { // there is none
		return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	}
	s.count(r, 1)
	defer s.count(r, -1)
	body := io.NopCloser(strings.NewReader(listed("100", "", "a a 10")))
	switch {
	case r.URL.Query().Get("watch") != "":
		reader, writer := io.Pipe()
		context.AfterFunc(r.Context(), func() { writer.CloseWithError(r.Context().Err()) })
		body = reader
	case strings.Contains(r.URL.Path, "/hangs"):
		<-r.Context().Done()
		return nil, r.Context().Err()
	default:
		time.Sleep(time.Second)
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, Request: r}, nil
}

func (s *slowServer) count(r *http.Request, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Query().Get("watch") != "" {
		s.watches += max(n, 0)
		return
	}
	s.now += n
	s.most = max(s.now, s.most)
}

func (s *slowServer) seen() (most, watches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most, s.watches
}

// streams starts a stream of each resource.
func (s *slowServer) streams(t *testing.T, turns *reflector.ListLimiter, resources ...string) {
	options := plain()
	options.Lists = turns
	for _, plural := range resources {
		stream := change.NewStream(change.Resource{Group: "example.com", Version: "v1", Plural: plural, Kind: "Thing", Namespaced: true}, "", "", "")
		startStream(t, &rest.Config{Host: "http://slow", Transport: s, QPS: -1}, stream, options, newLedger(), &quietObserver{})
		synctest.Wait()
	}
}

func TestStreamsListInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowServer{}
		s.streams(t, reflector.NewListLimiter(2), "one", "two", "three", "four", "five", "six")
		time.Sleep(3500 * time.Millisecond)
		if most, watches := s.seen(); most != 2 || watches != 6 {
			t.Errorf("%d lists at once, %d of 6 streams watch after three seconds; want 2 lists at once, and all", most, watches)
		}
	})
}

// While all lists take longer than a minute, each minute adds as many places as there are, and not one for every stream that
// waits.
func TestLongListsDoNotLetAllOthersList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowServer{}
		s.streams(t, reflector.NewListLimiter(2), "hangs1", "hangs2", "hangs3", "hangs4", "hangs5", "hangs6", "hangs7", "hangs8")
		time.Sleep(62 * time.Second)
		if most, _ := s.seen(); most != 4 {
			t.Errorf("%d lists at once after a minute, want 4", most)
		}
	})
}

// A server that hangs on some collections keeps the others waiting for a minute, not for as long as it hangs.
func TestAHangingListKeepsNobodyFromListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, turns := &slowServer{}, reflector.NewListLimiter(2)
		s.streams(t, turns, "hangs1", "hangs2", "answers")
		time.Sleep(62 * time.Second)
		if _, watches := s.seen(); watches != 1 {
			t.Errorf("%d streams watch, want the one that the server answers", watches)
		}
	})
}

package export

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type stallsHeard struct {
	quiet
	now string
}

func (h *stallsHeard) Stalled(_ string, err error) {
	if h.now = ""; err != nil {
		h.now = err.Error()
	}
}

// What takes long is told from its 2 s on until it ends; of several the oldest; what is quick, never.
func TestWhatHasNoAnswerIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &stallsHeard{}
		s := newStalls(h, slog.New(slog.DiscardHandler))
		want := func(after time.Duration, words ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			for _, word := range words {
				if !strings.Contains(h.now, word) {
					t.Errorf("told is %q, want %q", h.now, word)
				}
			}
			if len(words) == 0 && h.now != "" {
				t.Errorf("told is %q", h.now)
			}
		}
		first, quick := s.begin(PartSink, "first"), s.begin(PartSink, "quick")
		time.Sleep(time.Second)
		second := s.begin(PartSink, "second")
		want(900 * time.Millisecond)
		quick.end()
		want(200*time.Millisecond, "first", "no answer since 2000-01-01T00:00:00Z")
		want(10*time.Second, "first")
		first.failed(errors.New("refused"))
		want(0, "first", "last error: refused")
		first.end()
		want(0, "second", "no answer since 2000-01-01T00:00:01Z")
		second.end()
		want(time.Minute)
	})
}

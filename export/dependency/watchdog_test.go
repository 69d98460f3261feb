package dependency

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type heard struct{ text atomic.Value }

func (h *heard) Stalled(_ string, err error) {
	if h.text.Store(""); err != nil {
		h.text.Store(err.Error())
	}
}

func (h *heard) now() string {
	text, _ := h.text.Load().(string)
	return text
}

// A call that takes long is reported from its 2 s on until it ends; of several the oldest; a quick one, never.
func TestWhatHasNoAnswerIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heard{}
		d := NewWatchdog(h, slog.New(slog.DiscardHandler))
		want := func(after time.Duration, words ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			for _, word := range words {
				if !strings.Contains(h.now(), word) {
					t.Errorf("told is %q, want %q", h.now(), word)
				}
			}
			if len(words) == 0 && h.now() != "" {
				t.Errorf("told is %q", h.now())
			}
		}
		first, quick := d.Begin(Sink, "first"), d.Begin(Sink, "quick")
		time.Sleep(time.Second)
		second := d.Begin(Sink, "second")
		want(900 * time.Millisecond)
		quick.End()
		want(200*time.Millisecond, "first", "no answer since 2000-01-01T00:00:00Z")
		want(10*time.Second, "first")
		first.Failed(errors.New("refused"))
		want(0, "first", "last error: refused")
		first.End()
		want(0, "second", "no answer since 2000-01-01T00:00:01Z")
		second.End()
		want(time.Minute)
	})
}

// A tag survives wrapping, and changes nothing of the error's text.
func TestAnErrorKnowsItsDependency(t *testing.T) {
	refused := errors.New("connection refused")
	err := fmt.Errorf("slot 3: %w", Tag(Checkpoint, refused))
	if Of(err) != Checkpoint || err.Error() != "slot 3: connection refused" || !errors.Is(err, refused) {
		t.Errorf("%q comes from %q", err, Of(err))
	}
	if Of(refused) != "" || Tag(Sink, nil) != nil {
		t.Errorf("an error without a tag comes from %q, no error is %v", Of(refused), Tag(Sink, nil))
	}
}

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

type observed struct{ text atomic.Value }

func (o *observed) Stalled(_ string, err error) {
	if o.text.Store(""); err != nil {
		o.text.Store(err.Error())
	}
}

func (o *observed) now() string {
	text, _ := o.text.Load().(string)
	return text
}

// The oldest unanswered call is reported, from 2 s after its begin until it ends. A fast call is never reported.
func TestUnansweredCallsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &observed{}
		d := NewWatchdog(o, slog.New(slog.DiscardHandler))
		want := func(after time.Duration, words ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			for _, word := range words {
				if !strings.Contains(o.now(), word) {
					t.Errorf("reported is %q, want %q", o.now(), word)
				}
			}
			if len(words) == 0 && o.now() != "" {
				t.Errorf("reported is %q", o.now())
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

// A tag survives wrapping, and does not change the error's text.
func TestAnErrorIsAttributedToItsDependency(t *testing.T) {
	refused := errors.New("connection refused")
	err := fmt.Errorf("slot 3: %w", Tag(Checkpoint, refused))
	if NameOf(err) != Checkpoint || err.Error() != "slot 3: connection refused" || !errors.Is(err, refused) {
		t.Errorf("%q comes from %q", err, NameOf(err))
	}
	if NameOf(refused) != "" || Tag(Sink, nil) != nil {
		t.Errorf("an untagged error comes from %q, a tagged nil is %v", NameOf(refused), Tag(Sink, nil))
	}
}

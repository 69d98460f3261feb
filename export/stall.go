package export

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// stalledAfter is how long an answer may take before the log and /readyz say what is waited for.
const stalledAfter = 2 * time.Second

// stalls notices calls to the sink and the checkpoint that have had no answer for stalledAfter. A server that is frozen, or a
// network that loses every packet, gives no error for as long as the call's own timeout.
type stalls struct {
	observer Observer
	log      *slog.Logger

	mu   sync.Mutex
	said map[string][]*stall // by part, those that have been told of, oldest first
}

// stall is one thing that is waited for, over all attempts at it.
type stall struct {
	*stalls
	part, what string
	since      time.Time
	timer      *time.Timer

	err   error // of the last attempt; under stalls.mu
	ended bool  // likewise
}

func newStalls(observer Observer, log *slog.Logger) *stalls {
	return &stalls{observer: observer, log: log, said: map[string][]*stall{}}
}

// begin starts to wait for a part's answer, until end.
func (s *stalls) begin(part, what string) *stall {
	w := &stall{stalls: s, part: part, what: what, since: time.Now()}
	w.timer = time.AfterFunc(stalledAfter, w.tell)
	return w
}

// tell says that it takes long. Of many that wait for a part, the log has the first.
func (w *stall) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	if len(w.said[w.part]) == 0 {
		w.log.Warn("no answer yet", "part", w.part, "error", w.Error())
	}
	w.said[w.part] = append(w.said[w.part], w)
	w.observer.Stalled(w.part, w.said[w.part][0])
}

// failed notes the error of an attempt; others follow.
func (w *stall) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err = err; len(w.said[w.part]) > 0 && w.said[w.part][0] == w {
		w.observer.Stalled(w.part, w)
	}
}

// end says that it is waited for no more.
func (w *stall) end() {
	if w.timer.Stop() {
		return // nothing was said
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	waiting := w.said[w.part]
	for i, other := range waiting {
		if other == w {
			waiting = append(waiting[:i:i], waiting[i+1:]...)
		}
	}
	switch before := len(w.said[w.part]); {
	case len(waiting) == before:
	case len(waiting) == 0:
		w.observer.Stalled(w.part, nil)
		w.log.Info("not waiting any more", "part", w.part, "after", time.Since(w.since).Round(time.Millisecond).String())
	default:
		w.observer.Stalled(w.part, waiting[0])
	}
	w.said[w.part] = waiting
}

// Error says what is waited for and since when. It is asked under stalls.mu.
func (w *stall) Error() string {
	text := fmt.Sprintf("no answer since %s; waiting for: %s", w.since.UTC().Format(time.RFC3339), w.what)
	if w.err != nil {
		text += fmt.Sprintf("; last error: %v", w.err)
	}
	return text
}

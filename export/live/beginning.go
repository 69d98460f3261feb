package live

import (
	"time"

	"golang.org/x/time/rate"

	"kubecdc/change"
)

// beginning logs how streams begin. While their first lists run it logs a line per logInterval, and one line when all streams are
// watching.
type beginning struct {
	left    int             // streams that were added and do not watch yet
	started time.Time       // when the first of these was added
	objects int64           // number of objects in the ended first lists
	listed  int             // number of ended first lists
	resumed int             // number of streams that watch again
	lines   *rate.Sometimes // paces lines about first lists; nil: none has begun
	due     [][]any         // lines to log after the lock is released
}

const logInterval = 5 * time.Second

// first is how a stream begins.
type first struct {
	begins      bool // it does not watch yet
	lists       bool // its first list has begun
	done, total int64
}

// unlock releases the lock and logs what is due, since the log's reader may be slow.
func (e *Exporter) unlock() {
	lines := e.beginning.due
	e.beginning.due = nil
	e.mu.Unlock()
	for _, line := range lines {
		e.logger.Info(line[0].(string), line[1:]...)
	}
}

func (b *beginning) log(line ...any) { b.due = append(b.due, line) }

// begin records a stream that is about to start, perhaps with a first list.
func (b *beginning) begin(s *stream) {
	if s.begins {
		return
	}
	if b.left == 0 {
		b.started = time.Now()
	}
	b.left++
	s.first = first{begins: true}
}

// end records that a stream watches. If it does not watch, the others need not wait for it.
func (b *beginning) end(s *stream, watches bool) {
	if !s.begins {
		return
	}
	s.begins = false
	switch {
	case watches && s.lists:
		b.objects, b.listed = b.objects+s.done, b.listed+1
	case watches:
		b.resumed++
	}
	if b.left--; b.left > 0 {
		return
	}
	took := time.Since(b.started).Round(time.Millisecond).String()
	if b.listed > 0 { // otherwise all were delayed: a refused stream begins again every few seconds
		b.log("snapshot complete", "streams", b.listed, "objects", b.objects, "took", took)
	}
	if b.resumed > 0 {
		b.log("resumed", "streams", b.resumed, "took", took)
	}
	*b = beginning{due: b.due}
}

// ListProgress reports how many objects of a stream's first list were read, and 0 when it starts.
func (e *Exporter) ListProgress(id change.StreamID, done, total int64) {
	e.mu.Lock()
	defer e.unlock()
	b, s := &e.beginning, e.stream(id)
	b.begin(s)
	if b.lines == nil {
		b.lines = &rate.Sometimes{Interval: logInterval}
		b.lines.Do(func() {}) // the first line comes after an interval
	}
	s.lists, s.done, s.total = true, done, max(done, total)
	b.lines.Do(func() {
		read, total := b.objects, b.objects
		for _, s := range e.streams {
			if s.begins {
				read, total = read+s.done, total+s.total
			}
		}
		b.log("snapshot", "objects", read, "of", total, "streams_left", b.left)
	})
}

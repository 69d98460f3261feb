package observe

import (
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"kubecdc/change"
)

// Progress logs how streams begin: while their first lists run a line in logInterval, and one when all streams are watching.
type Progress struct {
	mu       sync.Mutex
	logger   *slog.Logger
	running  map[change.StreamID]*listing // streams that are added and not yet watching
	finished int64                        // objects of the first lists that have ended
	listed   int                          // first lists that have ended
	resumed  int                          // streams that are watching again
	started  time.Time                    // of the first of running
	lines    *rate.Sometimes              // of first lists; nil: none has begun
}

// listing is how many objects of a stream were read.
type listing struct {
	done, total int64
	begun       bool // the first list has
}

const logInterval = 5 * time.Second

func NewProgress(logger *slog.Logger) *Progress {
	return &Progress{logger: logger, running: map[change.StreamID]*listing{}}
}

// Expect reports a stream that is about to start, maybe with a first list.
func (p *Progress) Expect(stream change.StreamID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of(stream)
}

func (p *Progress) of(stream change.StreamID) *listing {
	if len(p.running) == 0 {
		p.started = time.Now()
	}
	if p.running[stream] == nil {
		p.running[stream] = &listing{}
	}
	return p.running[stream]
}

// SnapshotStarted reports that the first list of a stream starts.
func (p *Progress) SnapshotStarted(stream change.StreamID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lines == nil {
		p.lines = &rate.Sometimes{Interval: logInterval}
		p.lines.Do(func() {}) // the first line follows an interval later
	}
	p.of(stream).begun = true
}

// ListProgress reports how many objects of a first list were read. Other lists are ignored.
func (p *Progress) ListProgress(stream change.StreamID, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.running[stream]
	if l == nil || !l.begun {
		return
	}
	l.done, l.total = done, max(done, total)
	p.lines.Do(func() {
		read, of := p.finished, p.finished
		for _, l := range p.running {
			read, of = read+l.done, of+l.total
		}
		p.logger.Info("snapshot", "objects", read, "of", of, "streams_left", len(p.running))
	})
}

// Done reports that a stream is watching: its first list, if it had one, has ended.
func (p *Progress) Done(stream change.StreamID) { p.end(stream, true) }

// Drop reports that a stream is held up, or gone, so that the others need not wait for it. SnapshotStarted includes it again.
func (p *Progress) Drop(stream change.StreamID) { p.end(stream, false) }

func (p *Progress) end(stream change.StreamID, finished bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.running[stream]
	if l == nil {
		return
	}
	delete(p.running, stream)
	switch {
	case finished && l.begun:
		p.finished, p.listed = p.finished+l.done, p.listed+1
	case finished:
		p.resumed++
	}
	if len(p.running) > 0 {
		return
	}
	took := time.Since(p.started).Round(time.Millisecond).String()
	if p.listed > 0 { // or all were held up: a refused stream begins again every few seconds
		p.logger.Info("snapshot complete", "streams", p.listed, "objects", p.finished, "took", took)
	}
	if p.resumed > 0 {
		p.logger.Info("resumed", "streams", p.resumed, "took", took)
	}
	p.finished, p.listed, p.resumed, p.lines = 0, 0, 0, nil
}

package observe

import (
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/time/rate"

	"kubecdc/change"
)

// Progress shows the progress of first snapshots and of rebuilds of the checkpoint: as a bar on a terminal, else as log lines.
// The log lines about a rebuild are written by package rebuild.
type Progress struct {
	mu       sync.Mutex
	terminal io.Writer // nil: none
	logger   *slog.Logger
	bar      *progressbar.ProgressBar
	rebuilds map[int]count              // by slot
	running  map[change.StreamID]*count // streams that are added and not yet watching
	finished int64                      // objects of streams that are watching
	started  time.Time                  // of the first snapshots; zero: none is running
	listed   bool                       // a first list has ended since
	lines    *rate.Sometimes
}

type count struct {
	done, total int64
	snapshot    bool // the first list has begun
}

// logInterval is the time between two log lines.
const logInterval = 5 * time.Second

// NewProgress draws a bar on the terminal; nil: it writes log lines instead.
func NewProgress(terminal io.Writer) *Progress {
	return &Progress{terminal: terminal, logger: slog.New(slog.DiscardHandler),
		running: map[change.StreamID]*count{}, rebuilds: map[int]count{}}
}

// LogTo sets the logger. A logger that writes through Writer can't be given to NewProgress.
func (p *Progress) LogTo(logger *slog.Logger) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.logger = logger
}

// Rebuild reports the records that a slot has read; total is 0 when its rebuild has ended.
func (p *Progress) Rebuild(slot int, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if total == 0 {
		if delete(p.rebuilds, slot); len(p.rebuilds) == 0 && p.started.IsZero() {
			p.removeBar()
		}
		return
	}
	p.rebuilds[slot] = count{done: done, total: total}
	if p.terminal == nil || !p.started.IsZero() {
		return
	}
	var sum count
	for _, c := range p.rebuilds {
		sum.done, sum.total = sum.done+c.done, sum.total+c.total
	}
	p.draw("rebuilding the checkpoint", "records", sum)
}

// Expect reports a stream that is about to start, maybe with a first list.
func (p *Progress) Expect(stream change.StreamID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[stream] == nil {
		p.running[stream] = &count{}
	}
}

// Begin reports that the first list of a stream starts.
func (p *Progress) Begin(stream change.StreamID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started.IsZero() {
		p.started = time.Now()
		p.lines = &rate.Sometimes{Interval: logInterval}
		p.lines.Do(func() {}) // the first line follows an interval later
		p.removeBar()
	}
	if p.running[stream] == nil {
		p.running[stream] = &count{}
	}
	p.running[stream].snapshot = true
}

// List reports how many objects of a first list were read. Other lists are ignored.
func (p *Progress) List(stream change.StreamID, done, total int64) {
	log := func() {}
	defer func() { log() }() // after Unlock: the logger may write through Writer, which takes the lock
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.running[stream]
	if c == nil || !c.snapshot {
		return
	}
	c.done, c.total = done, max(done, total)
	if p.terminal != nil {
		p.draw("snapshot", "objects", p.sum())
		return
	}
	p.lines.Do(func() {
		sum, left, logger := p.sum(), len(p.running), p.logger
		log = func() { logger.Info("snapshot", "objects", sum.done, "of", sum.total, "streams_left", left) }
	})
}

// Done reports that a stream is watching: its first list, if it had one, has ended.
func (p *Progress) Done(stream change.StreamID) { p.end(stream, true) }

// Drop reports that a stream is held up, so that the others need not wait for it. Begin includes it again.
func (p *Progress) Drop(stream change.StreamID) { p.end(stream, false) }

func (p *Progress) end(stream change.StreamID, finished bool) {
	log := func() {}
	defer func() { log() }()
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.running[stream]
	if c == nil {
		return
	}
	delete(p.running, stream)
	if finished {
		p.finished += c.done
		p.listed = p.listed || c.snapshot
	}
	if len(p.running) == 0 {
		log = p.finish()
	}
}

// finish removes the bar, and returns a function that logs the end of the snapshots.
func (p *Progress) finish() func() {
	p.removeBar()
	if p.started.IsZero() {
		return func() {} // all streams resumed
	}
	logger, objects, took, listed := p.logger, p.finished, time.Since(p.started).Round(time.Millisecond), p.listed
	p.finished, p.started, p.listed = 0, time.Time{}, false
	if !listed {
		return func() {} // all were held up: a refused stream begins again every few seconds
	}
	return func() { logger.Info("snapshot complete", "objects", objects, "took", took.String()) }
}

func (p *Progress) removeBar() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}

func (p *Progress) sum() count {
	s := count{done: p.finished, total: p.finished}
	for _, c := range p.running {
		s.done += c.done
		s.total += c.total
	}
	return s
}

// NewBar returns the bar of all commands, with the number of things of a unit as its maximum.
func NewBar(terminal io.Writer, what, unit string, of int64) *progressbar.ProgressBar {
	return progressbar.NewOptions64(of+1, progressbar.OptionSetWriter(terminal), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString(unit),
		progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
}

// draw keeps the bar's maximum one above the sum: a full bar ends for good, though more streams may begin.
func (p *Progress) draw(what, unit string, s count) {
	if p.bar == nil {
		p.bar = NewBar(p.terminal, what, unit, s.total)
	}
	p.bar.ChangeMax64(s.total + 1)
	_ = p.bar.Set64(s.done)
}

// Writer returns a writer to the same terminal, which removes the bar before it writes.
func (p *Progress) Writer(w io.Writer) io.Writer { return &barClearingWriter{p, w} }

type barClearingWriter struct {
	progress *Progress
	w        io.Writer
}

func (b *barClearingWriter) Write(text []byte) (int, error) {
	b.progress.mu.Lock()
	defer b.progress.mu.Unlock()
	if b.progress.bar != nil {
		_ = b.progress.bar.Clear()
	}
	return b.w.Write(text)
}

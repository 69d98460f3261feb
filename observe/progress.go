package observe

import (
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"kubecdc/change"
)

// Progress shows how far the first snapshots are, and rebuilds of the checkpoint: a bar on a terminal. Elsewhere there is a
// log line now and then; those about a rebuild are written by who does it.
type Progress struct {
	mu      sync.Mutex
	out     io.Writer // the terminal; nil for none
	log     *slog.Logger
	bar     *progressbar.ProgressBar
	rebuilt map[int]*count             // by slot
	drawn   time.Time                  // when their bar was drawn last
	running map[change.StreamID]*count // by stream
	count   count                      // of streams that are done
	started time.Time
	said    time.Time // when the last line was logged
}

type count struct {
	done, total int64
	snapshot    bool // a first list has begun
}

// sayEvery is the time between two log lines.
const sayEvery = 5 * time.Second

// NewProgress draws on the terminal out, or logs where out is nil.
func NewProgress(out io.Writer) *Progress {
	return &Progress{out: out, log: slog.New(slog.DiscardHandler), running: map[change.StreamID]*count{}, rebuilt: map[int]*count{}}
}

// LogTo says where the lines go; for a logger that writes through Writer it can only be said afterwards.
func (p *Progress) LogTo(log *slog.Logger) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = log
}

// Rebuild says how many records of how many a slot has read; of 0 when that has ended.
func (p *Progress) Rebuild(slot int, done, of int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if of == 0 {
		if delete(p.rebuilt, slot); len(p.rebuilt) == 0 && p.started.IsZero() {
			p.takeAway()
		}
		return
	}
	p.rebuilt[slot] = &count{done: done, total: of}
	if p.out == nil || !p.started.IsZero() || time.Since(p.drawn) < 100*time.Millisecond {
		return
	}
	p.drawn = time.Now()
	var sum count
	for _, c := range p.rebuilt {
		sum.done, sum.total = sum.done+c.done, sum.total+c.total
	}
	p.show("rebuilding the checkpoint", "records", sum)
}

// Expect says that a stream is about to start, perhaps with a first list.
func (p *Progress) Expect(stream change.StreamID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[stream] == nil {
		p.running[stream] = &count{}
	}
}

// Begin says that the first list of a stream starts.
func (p *Progress) Begin(stream change.StreamID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started.IsZero() {
		p.started, p.said = time.Now(), time.Now()
		p.takeAway()
	}
	if p.running[stream] == nil {
		p.running[stream] = &count{}
	}
	p.running[stream].snapshot = true
}

// List says how many objects of how many a list has read; of a stream that did not begin it is passed over.
func (p *Progress) List(stream change.StreamID, done, total int64) {
	say := func() {}
	defer func() { say() }() // the log may write through Writer, which takes the lock
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.running[stream]
	if c == nil || !c.snapshot {
		return
	}
	c.done, c.total = done, max(done, total)
	if p.out != nil {
		p.draw()
	} else if time.Since(p.said) >= sayEvery {
		p.said = time.Now()
		sum, left, log := p.sum(), len(p.running), p.log
		say = func() { log.Info("snapshot", "objects", sum.done, "of", sum.total, "streams_left", left) }
	}
}

// Done says that a stream is watching: its first list, if it had one, has ended.
func (p *Progress) Done(stream change.StreamID) { p.end(stream, true) }

// Drop says that a stream is held up, so that the others need not wait for it; Begin takes it in again.
func (p *Progress) Drop(stream change.StreamID) { p.end(stream, false) }

func (p *Progress) end(stream change.StreamID, counts bool) {
	say := func() {}
	defer func() { say() }()
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.running[stream]
	if c == nil {
		return
	}
	delete(p.running, stream)
	if counts {
		p.count.done += c.done
		p.count.total += c.done
	}
	if len(p.running) == 0 {
		say = p.finish()
	}
}

// finish takes the bar away, and gives what there is to say.
func (p *Progress) finish() func() {
	p.takeAway()
	if p.started.IsZero() {
		return func() {} // all streams resumed
	}
	log, objects, took := p.log, p.count.done, time.Since(p.started).Round(time.Millisecond)
	p.count, p.started = count{}, time.Time{}
	return func() { log.Info("snapshot complete", "objects", objects, "took", took.String()) }
}

func (p *Progress) takeAway() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}

func (p *Progress) sum() count {
	s := p.count
	for _, c := range p.running {
		s.done += c.done
		s.total += c.total
	}
	return s
}

func (p *Progress) draw() { p.show("snapshot", "objects", p.sum()) }

// show keeps the bar's end one beyond the sum: a bar that is full ends for good, and streams may yet begin.
func (p *Progress) show(what, of string, s count) {
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(s.total+1, progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(what),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString(of),
			progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	p.bar.ChangeMax64(s.total + 1)
	_ = p.bar.Set64(s.done)
}

// Writer gives a writer to the same terminal that takes the bar away before it writes.
func (p *Progress) Writer(w io.Writer) io.Writer { return &besideBar{p, w} }

type besideBar struct {
	p *Progress
	w io.Writer
}

func (b *besideBar) Write(text []byte) (int, error) {
	b.p.mu.Lock()
	defer b.p.mu.Unlock()
	if b.p.bar != nil {
		_ = b.p.bar.Clear()
	}
	return b.w.Write(text)
}

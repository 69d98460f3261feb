package cli

import (
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/time/rate"
	"kubecdc/internal/screen"
)

// Progress shows how many records a command has read or written: as a bar on a terminal, else as lines of a log.
type Progress struct {
	mu    sync.Mutex
	errs  io.Writer
	what  string
	total int64
	begun time.Time
	bar   *progressbar.ProgressBar // nil: no terminal, or not yet a second
	log   *slog.Logger             // nil: none
	lines rate.Sometimes
}

// NewProgress starts a progress display. total is the number of records, or 0 if it is unknown yet.
func NewProgress(errs io.Writer, what string, total int64, log *slog.Logger) *Progress {
	p := &Progress{errs: errs, what: what, total: total, log: log, begun: time.Now(),
		lines: rate.Sometimes{Interval: 5 * time.Second}}
	p.lines.Do(func() {}) // the first line comes after an interval
	return p
}

// Show is Report for work of several parts, each with a bar of its own.
func (p *Progress) Show(what string, done, total int64) {
	if what != p.what {
		p.End()
		p.mu.Lock()
		p.what, p.bar = what, nil
		p.mu.Unlock()
	}
	p.Report(done, total)
}

// Report shows the number of records so far. total is 0 if NewProgress already has it.
func (p *Progress) Report(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if total > 0 {
		p.total = total
	}
	switch {
	case screen.IsTerminal(p.errs):
		if p.bar == nil && time.Since(p.begun) < time.Second {
			return
		}
		if p.bar == nil {
			p.bar = progressbar.NewOptions64(p.total+1, progressbar.OptionSetWriter(p.errs),
				progressbar.OptionSetDescription(p.what),
				progressbar.OptionShowCount(), progressbar.OptionSetWidth(8), progressbar.OptionThrottle(100*time.Millisecond),
				progressbar.OptionClearOnFinish(),
				progressbar.OptionSetElapsedTime(false), progressbar.OptionSetPredictTime(false))
		}
		p.bar.ChangeMax64(max(p.total, done) + 1) // a full bar would end
		_ = p.bar.Set64(done)
	case p.log != nil:
		p.lines.Do(func() { p.log.Info(p.what, "records", done, "of", p.total) })
	}
}

// Write removes the bar and writes a text.
func (p *Progress) Write(text []byte) (int, error) {
	p.End()
	return p.errs.Write(text)
}

// End removes the bar.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

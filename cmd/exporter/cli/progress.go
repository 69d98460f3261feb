package cli

import (
	"io"
	"log/slog"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/time/rate"
	"kubecdc/internal/screen"
)

// progress shows how far a command is that reads or writes records: as a bar on a terminal, else as lines of a log.
type progress struct {
	errs  io.Writer
	what  string
	of    int64
	bar   *progressbar.ProgressBar // nil: no terminal
	log   *slog.Logger             // nil: none
	lines rate.Sometimes
}

// NewProgress begins to show how far a command is. of is the number of records; 0: not known yet.
func NewProgress(errs io.Writer, what string, of int64, log *slog.Logger) *progress {
	p := &progress{errs: errs, what: what, of: of, log: log, lines: rate.Sometimes{Interval: 5 * time.Second}}
	if screen.IsTerminal(errs) {
		p.bar = progressbar.NewOptions64(of+1, progressbar.OptionSetWriter(errs), progressbar.OptionSetDescription(what),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("records"),
			progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	p.lines.Do(func() {}) // the first line follows an interval later
	return p
}

// At reports records; of is 0 where it is known from the start.
func (p *progress) At(done, of int64) {
	if of > 0 {
		p.of = of
	}
	switch {
	case p.bar != nil:
		p.bar.ChangeMax64(max(p.of, done) + 1) // a full bar would end
		_ = p.bar.Set64(done)
	case p.log != nil:
		p.lines.Do(func() { p.log.Info(p.what, "records", done, "of", p.of) })
	}
}

// Write writes a note meanwhile, in the place of the bar.
func (p *progress) Write(text []byte) (int, error) {
	p.End()
	return p.errs.Write(text)
}

// End removes the bar.
func (p *progress) End() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

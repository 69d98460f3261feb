package main

import (
	"io"
	"log/slog"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/time/rate"

	"kubecdc/observe"
)

// progress shows how far a command is that reads or writes records: as a bar on a terminal, else as lines of a log.
type progress struct {
	errs  io.Writer
	what  string
	of    int64
	bar   *progressbar.ProgressBar // nil: no terminal
	log   *slog.Logger             // nil: none
	lines rate.Sometimes
	began time.Time
	first int64
}

func newProgress(errs io.Writer, what string, of int64, log *slog.Logger) *progress {
	p := &progress{errs: errs, what: what, of: of, log: log, began: time.Now(), first: -1, lines: rate.Sometimes{Interval: 5 * time.Second}}
	if isTerminal(errs) {
		p.bar = observe.NewBar(errs, what, "records", of)
	}
	p.lines.Do(func() {}) // the first line follows an interval later
	return p
}

// at reports records; of is 0 where it is known from the start.
func (p *progress) at(done, of int64) {
	if of > 0 {
		p.of = of
	}
	if p.first < 0 {
		p.first = done
	}
	if p.bar != nil {
		p.bar.ChangeMax64(max(p.of, done) + 1) // a full bar would end
		_ = p.bar.Set64(done)
		return
	}
	if p.log == nil {
		return
	}
	p.lines.Do(func() {
		perSecond := float64(done-p.first) / time.Since(p.began).Seconds()
		left := time.Duration(float64(max(p.of-done, 0)) / max(perSecond, 1) * float64(time.Second))
		p.log.Info(p.what, "records", done, "of", p.of, "per_second", int64(perSecond), "left", left.Round(time.Second).String())
	})
}

// Write writes a note meanwhile, in the place of the bar.
func (p *progress) Write(text []byte) (int, error) {
	p.end()
	return p.errs.Write(text)
}

func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

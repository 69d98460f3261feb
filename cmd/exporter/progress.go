package main

import (
	"log/slog"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/time/rate"

	"kubecdc/config"
	"kubecdc/observe"
)

// replayProgress shows how far a replay is: as a bar on a terminal, else as log lines.
type replayProgress struct {
	what  string
	of    int64
	bar   *progressbar.ProgressBar // nil: no terminal
	log   *slog.Logger
	lines rate.Sometimes
	began time.Time
	first int64
}

func newReplayProgress(settings *config.Config, what string, of int64) *replayProgress {
	p := &replayProgress{what: what, of: of, began: time.Now(), first: -1, lines: rate.Sometimes{Interval: 5 * time.Second}}
	if observe.IsTerminal(os.Stderr) {
		p.bar = progressbar.NewOptions64(max(of, 1), progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription(what),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("records"),
			progressbar.OptionSetPredictTime(true), progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish())
		return p
	}
	p.log = observe.NewLogger(os.Stderr, settings.Process.LogLevel, settings.Process.LogFormat, false)
	p.lines.Do(func() {}) // the first line follows an interval later
	return p
}

// at reports records; of is 0 where it is known from the start.
func (p *replayProgress) at(done, of int64) {
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
	p.lines.Do(func() {
		perSecond := float64(done-p.first) / time.Since(p.began).Seconds()
		left := time.Duration(float64(max(p.of-done, 0)) / max(perSecond, 1) * float64(time.Second))
		p.log.Info(p.what, "records", done, "of", p.of, "per_second", int64(perSecond), "left", left.Round(time.Second).String())
	})
}

func (p *replayProgress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

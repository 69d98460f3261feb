package rebuild

import (
	"time"

	"golang.org/x/time/rate"
)

// Pacer limits how often long work reports its progress: rebuilding a checkpoint, and rolling it forward.
type Pacer struct{ observe, log rate.Sometimes }

// NewPacer returns a pacer. The first log line is due only after some time.
func NewPacer() *Pacer {
	p := &Pacer{observe: rate.Sometimes{Interval: 100 * time.Millisecond}, log: rate.Sometimes{Interval: 5 * time.Second}}
	p.log.Do(func() {})
	return p
}

// Report calls observe, for /readyz, at most ten times a second, and log at most every five seconds.
func (p *Pacer) Report(observe, log func()) {
	p.observe.Do(observe)
	p.log.Do(log)
}

package past

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"kubecdc/internal/fault"
	"kubecdc/internal/screen"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
)

// An answer has one zone: UTC, or on a terminal the local zone, which the last line of the answer names.

// utcTime is how package query writes times.
var utcTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// withLocalTimes returns a text with its times in the local zone.
func withLocalTimes(text string) string {
	return utcTime.ReplaceAllStringFunc(text, func(utc string) string {
		t, err := time.Parse(time.RFC3339, utc)
		if err != nil {
			return utc
		}
		return t.Local().Format("2006-01-02 15:04:05.999999999")
	})
}

// zoneText names the local zone.
func zoneText(now time.Time) string {
	if zone, offset := now.Local().Zone(); zone == "UTC" && offset == 0 {
		return "times are UTC"
	}
	return "times are local, now UTC" + now.Local().Format("-07:00")
}

// clockOf returns a time as the answer shows times.
func (p *pastFlags) clockOf(t time.Time) string {
	if p.screen != nil {
		return screen.Clock(t, time.Now()) + t.Format(".999999999")
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// remarkMoment writes what a flag's time was understood as, unless it was written so, and if the answer is about an earlier one.
func (p *pastFlags) remarkMoment(errs io.Writer, flag, text string, asked, answered timeline.Target) {
	t := answered.Happened
	if t.IsZero() {
		t = answered.Logged
	}
	back := asked.Happened.Sub(answered.Happened)
	if t.IsZero() || back == 0 && p.clockOf(t) == text {
		return
	}
	remark := fmt.Sprintf("%s %s is %s", flag, text, p.clockOf(t))
	if back > 0 {
		remark += fmt.Sprintf(", %s earlier than asked: the last moment at which the order of all changes is certain", back)
	}
	p.addRemark(errs, remark)
}

// zonedError is an error whose times are in the zone of the answer.
type zonedError struct {
	error
	text string
}

func (e *zonedError) Error() string { return e.text }
func (e *zonedError) Unwrap() error { return e.error }

// explained returns the error of an answer with its times in the answer's zone. It adds what to do if the log does not go back
// far enough.
func (p *pastFlags) explained(err error) error {
	if errors.Is(err, sinks.ErrNotRetained) {
		err = fmt.Errorf("%w: KUBECDC_KAFKA_HISTORY, KUBECDC_SINK_POSTGRES_HISTORY or KUBECDC_SQLITE_HISTORY says how long the "+
			"log retains every change", err)
	}
	if err == nil || p.screen == nil || fault.Is[fault.Usage](err) {
		return err
	}
	if text := withLocalTimes(err.Error()); text != err.Error() {
		return &zonedError{err, text + "\n" + zoneText(time.Now())}
	}
	return err
}

package who_test

import (
	"context"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/test/sinktest"
)

var began = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func minute(n int) time.Time { return began.Add(time.Duration(n) * time.Minute) }

// log is a log in memory.
type log struct {
	sinks.Reader // nil: nothing else is read
	controls     []*change.Control
	changes      []*sinks.Logged
}

// Changes visits copies, whose memory is overwritten after each visit.
func (l *log) Changes(_ context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	for _, c := range l.changes {
		if !slices.Contains(q.Resources, change.ResourceOf(c.Stream.ID()).ID()) || !q.Selects(c) {
			continue
		}
		if err := sinktest.Visit(c, visit); err != nil {
			return err
		}
	}
	return nil
}

func (l *log) Controls(_ context.Context, _ time.Time, _ func(*sinks.Span) bool, visit func(*change.Control) error) error {
	for _, c := range l.controls {
		if err := visit(c); err != nil {
			return err
		}
	}
	return nil
}

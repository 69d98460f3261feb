package stdout

import (
	"context"

	"kubecdc/change"
	"kubecdc/change/provenance"
	"kubecdc/sinks"
)

// Beside returns a sink that shows on a terminal what another one has made durable, a short line for each change.
func Beside(durable Durable, show Show) sinks.Sink {
	return &besides{durable, New(Options{Format: Text, Out: show.Screen, Show: show})}
}

// Durable is a sink that can be read back, with audit records.
type Durable interface {
	sinks.Sink
	sinks.AuditLog
}

type besides struct {
	Durable
	printer *Sink
}

func (b *besides) Open(ctx context.Context, slot int, epoch int64, from sinks.Durable) (*sinks.Opened, error) {
	opened, err := b.Durable.Open(ctx, slot, epoch, from)
	if err == nil {
		opened.Log = &logBesides{Log: opened.Log, printer: log{b.printer}}
	}
	return opened, err
}

type logBesides struct {
	sinks.Log
	printer log
	who     provenance.Reader
}

// Write prints what was written. Lines that can't be printed are lost: the log has the changes.
func (l *logBesides) Write(ctx context.Context, b *change.Batch) (change.Offsets, error) {
	offsets, err := l.Log.Write(ctx, b)
	if err == nil {
		l.who.ReadAll(b)
		_, _ = l.printer.Write(ctx, b)
	}
	return offsets, err
}

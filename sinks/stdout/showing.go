package stdout

import (
	"context"

	"kubecdc/change"
	"kubecdc/change/provenance"
	"kubecdc/sinks"
)

// WithLines returns a sink that also shows on a terminal what a durable sink has made durable, as a short line for each change.
func WithLines(durable Durable, show Show) sinks.Sink {
	return &showing{durable, New(Options{Format: Text, Out: show.Screen, Show: show})}
}

// Durable is a sink that can be read back, with audit records and schemas.
type Durable interface {
	sinks.Sink
	sinks.AuditLog
	sinks.SchemaLog
}

type showing struct {
	Durable
	printer *Sink
}

func (b *showing) Open(ctx context.Context, slot int, epoch int64, from sinks.Durable) (*sinks.Opened, error) {
	opened, err := b.Durable.Open(ctx, slot, epoch, from)
	if err == nil {
		opened.Log = &showingLog{Log: opened.Log, printer: log{b.printer}}
	}
	return opened, err
}

type showingLog struct {
	sinks.Log
	printer log
	who     provenance.Reader
}

// Write writes the batch, then prints it. Lines that can't be printed are lost, but the log has the changes.
func (l *showingLog) Write(ctx context.Context, b *change.Batch) (change.Offsets, error) {
	offsets, err := l.Log.Write(ctx, b)
	if err == nil {
		l.who.ReadAll(b)
		_, _ = l.printer.Write(ctx, b)
	}
	return offsets, err
}

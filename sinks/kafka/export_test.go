package kafka

import (
	"context"

	"kubecdc/change"
	"kubecdc/sinks"
)

// WriteWithoutEnd writes a batch without ending its transaction, and leaves the log like a killed process.
func WriteWithoutEnd(ctx context.Context, log sinks.Log, b *change.Batch) error {
	l := log.(*slotLog)
	if err := l.prepare(ctx, b); err != nil {
		return err
	}
	err := l.apply(ctx)
	l.broken = errClosed // Close does not abort it
	return err
}

// WriteUnended writes a batch without ending its transaction, like a process that is suspended there.
func WriteUnended(ctx context.Context, log sinks.Log, b *change.Batch) error {
	l := log.(*slotLog)
	if err := l.prepare(ctx, b); err != nil {
		return err
	}
	return l.apply(ctx)
}

// Publish commits what WriteUnended has written, like that process after it resumes.
func Publish(ctx context.Context, log sinks.Log) error {
	_, err := log.(*slotLog).publish(ctx)
	return asInvalidWriter(err)
}

// WriteDataOnly writes only the records of a batch's changes.
func WriteDataOnly(ctx context.Context, log sinks.Log, b *change.Batch) error {
	l := log.(*slotLog)
	if err := l.prepare(ctx, b); err != nil {
		return err
	}
	if err := l.producer.Add(ctx, l.active...); err != nil {
		return err
	}
	err := l.producer.Produce(ctx, l.active...)
	l.broken = errClosed
	return err
}

// ForgetAudit makes the sink write audit records that the topic has, as if another replica writes at the same moment.
func ForgetAudit(s *Sink) { clear(s.audit.known.index) }

// FirstMessage returns the first message of a login.
func FirstMessage(ctx context.Context, login SASL) ([]byte, error) {
	m, err := login.Login()
	if err != nil {
		return nil, err
	}
	_, message, err := m.Start(ctx)
	return message, err
}

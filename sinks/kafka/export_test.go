package kafka

import (
	"context"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/encoding"
)

// WriteWithoutEnd writes a batch without ending its transaction, and leaves the log as a killed process would.
func WriteWithoutEnd(ctx context.Context, log sinks.Log, b *change.Batch) error {
	l := log.(*slotLog)
	if err := l.prepare(ctx, b); err != nil {
		return err
	}
	err := l.apply(ctx)
	l.broken = errClosed // Close shall not abort it
	return err
}

// WriteUnended writes a batch without ending its transaction, as a process that is suspended there.
func WriteUnended(ctx context.Context, log sinks.Log, b *change.Batch) error {
	l := log.(*slotLog)
	if err := l.prepare(ctx, b); err != nil {
		return err
	}
	return l.apply(ctx)
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

// Decode makes the changes of a batch from its records, as reading a tail does.
func Decode(records []consumer.Record) ([]change.Change, error) {
	d := &decoder{}
	for _, r := range records {
		if err := d.addChange(context.Background(), encoding.NewSet(), r); err != nil {
			return nil, err
		}
	}
	return d.changes, nil
}

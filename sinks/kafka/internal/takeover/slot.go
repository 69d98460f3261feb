// Package takeover is what a slot's new owner learns from the log before it writes: whether the log is this cluster's, whether
// its own epoch is the newest, what was logged after the checkpoint, and what the log has lost. For a lost checkpoint it learns
// the state of everything. The package reads, and tells the owner. What the owner does is decided elsewhere.
package takeover

import (
	"context"
	"errors"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/admin"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/logread"
	"kubecdc/sinks/kafka/internal/producer"
	"kubecdc/sinks/kafka/internal/settings"
)

// Shared is what all slots of a process share.
type Shared struct {
	*logread.Log
	Config   *settings.Config
	Writable *admin.Topics
	Doubts   *Doubts
}

// Slot is the log of one slot, as its new owner finds it.
type Slot struct {
	*Shared
	slot    int
	epoch   int64
	control *producer.Partition

	seen       controlSeen
	after      *tail                // the log after the checkpoint; nil for a new checkpoint
	history    *history             // nil until it is needed
	openOffset int64                // offset of this owner's "open" record
	loss       *sinks.LostTailError // nil: none
	ids        topicIDs
	starts     starts
	expected   change.Offsets // the checkpoint's offsets in topics that have lost nothing
	lossy      change.Offsets // its offsets in the other topics
	missing    change.Offsets // after the last records of the tail's batches, where partitions have lost these
}

// Slot returns a slot whose control records are in a partition.
func (s *Shared) Slot(ctx context.Context, slot int, epoch int64, control *producer.Partition) (*Slot, error) {
	l := &Slot{Shared: s, slot: slot, epoch: epoch, control: control,
		ids:    topicIDs{now: map[string]int64{}, stored: map[string]bool{}, asked: time.Now()},
		starts: starts{seen: map[string]map[int]int64{}, unrecorded: map[string]map[int]int64{}, moved: map[string]string{}}}
	return l, l.LearnID(ctx, control.Topic.Name)
}

// End reads the rest of the control topic, up to the owner's own open record, which is at the offset. It records what the log has
// lost. It fails with *sinks.NewerEpochError if another owner has opened the slot with this epoch or a newer one.
func (l *Slot) End(ctx context.Context, offset int64) error {
	l.openOffset = offset
	if l.after == nil {
		return nil
	}
	if err := l.after.end(ctx); err != nil {
		return err
	}
	if l.after.lost != nil {
		l.loss = withTail(l.after.lost, l.loss)
	}
	return nil
}

// Opened returns what the owner must know of the log, which it writes to from now on.
func (l *Slot) Opened(log interface {
	sinks.Log
	sinks.Content
}) *sinks.Opened {
	found := &sinks.Opened{Log: log, Content: log, Lost: l.loss,
		Tail: func(ctx context.Context, visit func(*sinks.Recovered) error) error {
			err := l.readTail(ctx, visit)
			if errors.Is(err, consumer.ErrGone) {
				return withTail(err, l.loss)
			}
			return err
		}}
	if l.after != nil {
		found.Passed = l.after.reader.Records()
		if l.after.lost == nil {
			found.Last = l.after.seq
		}
	}
	return found
}

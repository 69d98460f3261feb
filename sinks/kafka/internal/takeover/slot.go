// Package takeover is what the new owner of a slot learns from the log, before it writes any more: whether the log is this
// cluster's and its own epoch the newest, what was logged after the checkpoint, what the log has lost, and, for a lost
// checkpoint, the state of everything. It reads, and tells the owner; what it may do then is decided elsewhere.
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
	after      *tail                // what follows the checkpoint; nil if that is new
	history    *history             // of the whole cluster; nil until it is needed
	openOffset int64                // of this owner's "open" record
	loss       *sinks.LostTailError // nil: none
	ids        topicIDs
	starts     starts
	expected   change.Offsets // of the checkpoint, in the topics that have lost nothing
	lossy      change.Offsets // the other ones
	missing    change.Offsets // after the last records of the tail's batches, where partitions have lost these
}

// Slot begins with a slot whose control records are in this partition.
func (s *Shared) Slot(ctx context.Context, slot int, epoch int64, control *producer.Partition) (*Slot, error) {
	l := &Slot{Shared: s, slot: slot, epoch: epoch, control: control,
		ids:    topicIDs{of: map[string]int64{}, told: map[string]bool{}, asked: time.Now()},
		starts: starts{seen: map[string]map[int]int64{}, untold: map[string]map[int]int64{}, moved: map[string]string{}}}
	return l, l.LearnID(ctx, control.Topic.Name)
}

// End takes the offset of the owner's open record, and reads up to it.
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

// Opened is what the owner has to know of the log, which it writes to from now on.
func (l *Slot) Opened(log interface {
	sinks.Log
	sinks.Content
}) *sinks.Opened {
	found := &sinks.Opened{Log: log, Content: log, Lost: l.loss, Tail: func(ctx context.Context, visit func(*sinks.Recovered) error) error {
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

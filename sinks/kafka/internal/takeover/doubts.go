package takeover

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"kubecdc/change"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/logread"
	"kubecdc/sinks/kafka/internal/producer"
)

// Doubts are the partitions that may have lost records, by the answers to writes. An end after the records proves nothing, since
// markers of aborted transactions and other writers fill lost offsets.
type Doubts struct {
	mu  sync.Mutex
	all map[place]doubt
}

// NewDoubts returns an empty set.
func NewDoubts() *Doubts { return &Doubts{all: map[place]doubt{}} }

// place is a partition that a slot writes to.
type place struct {
	slot, partition int
	topic           string
}

// doubt is about the slot's record before an offset.
type doubt struct {
	next   int64
	lost   bool // certainly lost
	record written
}

// written is the batch that has written a record, by the record's headers. Batch 0 means any batch of the slot.
type written struct {
	epoch int64
	batch uint64
}

// Add records the doubts that the answers to a failed write left about partitions (Doubt, Lost).
func (d *Doubts) Add(slot int, partitions []*producer.Partition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range partitions {
		if p.Lost || p.Doubt {
			d.all[place{slot, int(p.Index), p.Topic.Name}] = doubt{next: p.Next, lost: p.Lost}
		}
	}
}

// addOwn adds a batch of the slot. Its last record in a partition may be the last one that the checkpoint knows there. It is
// unknown whether the process that wrote the record got an answer that left a doubt, and what others have written since.
func (d *Doubts) addOwn(c logread.Control, known change.Offsets) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for topic, ends := range c.Ends() {
		for p, next := range ends {
			where := place{c.Slot, p, topic}
			// the last of several counts
			if isCertain := d.all[where].lost && d.all[where].next == next; next == known[topic][p] && !isCertain {
				d.all[where] = doubt{next: next, record: written{c.Epoch, c.Batch}}
			}
		}
	}
}

// find returns the doubt about a partition whose next offset is the checkpoint's. A doubt about another offset is outdated: the
// checkpoint has moved on, after the lost records were written again.
func (d *Doubts) find(where place, next int64) (found doubt, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, ok = d.all[where]
	return found, ok && found.next == next
}

// hasLost reports whether a partition has lost the record before the checkpoint's next offset, although its end is after that.
func (l *Slot) hasLost(ctx context.Context, topic string, partition int, next int64) (bool, error) {
	if missing, ok := l.missing[topic][partition]; ok && missing == next {
		return true, nil
	}
	doubt, ok := l.Doubts.find(place{l.slot, partition, topic}, next)
	if !ok || doubt.lost {
		return ok, nil
	}
	return l.isOther(ctx, topic, partition, next-1, doubt.record)
}

// addMissing finds out whether a batch of the tail that lacks records has lost its last ones. Compaction may have removed others.
func (l *Slot) addMissing(ctx context.Context, c logread.Control) error {
	for topic, ends := range c.Ends() {
		for p, next := range ends {
			other, err := l.isOther(ctx, topic, p, next-1, written{c.Epoch, c.Batch})
			if err != nil {
				return err
			}
			if other {
				l.missing = l.missing.Merge(change.Offsets{topic: {p: next}})
			}
		}
	}
	return nil
}

// isOther reports whether an offset now has something other than the slot's record: another slot's record, a marker, or a record
// of a later, aborted batch. If retention has left nothing there, that proves nothing.
func (l *Slot) isOther(ctx context.Context, topic string, partition int, offset int64, own written) (other bool, err error) {
	r := consumer.New(l.Client, consumer.Range{Topic: topic, Partition: int32(partition), First: offset, NoValues: true,
		Wanted: func(f *consumer.Record) bool {
			other = other || f.Offset == offset && !l.wrote(f, own)
			return false
		},
		Marker: func(marker int64) { other = other || marker == offset }})
	if err = r.ReadTo(ctx, offset); errors.Is(err, consumer.ErrGone) {
		err = nil
	}
	return other, err
}

func (l *Slot) wrote(f *consumer.Record, own written) bool {
	return f.Headers[change.HeaderSlot] == strconv.Itoa(l.slot) &&
		(own.batch == 0 || f.Headers[change.HeaderEpoch] == strconv.FormatInt(own.epoch, 10) &&
			f.Headers[change.HeaderBatch] == strconv.FormatUint(own.batch, 10))
}

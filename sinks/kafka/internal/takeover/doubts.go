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

// Doubts are the partitions that may have lost records, as the answers to writes say. That a partition's end is past the
// records proves nothing: the markers of aborted transactions fill lost offsets, and so do other writers.
type Doubts struct {
	mu  sync.Mutex
	all map[place]doubt
}

// NewDoubts begins without any.
func NewDoubts() *Doubts { return &Doubts{all: map[place]doubt{}} }

// place is a partition that a slot writes to.
type place struct {
	slot, partition int
	topic           string
}

// doubt is about the record before an offset, which was the slot's.
type doubt struct {
	next int64
	lost bool // beyond doubt
	of   written
}

// written says which batch has written a record, by its headers; batch 0: any of the slot's.
type written struct {
	epoch int64
	batch uint64
}

// Note takes the answers to a write that failed.
func (d *Doubts) Note(slot int, partitions []*producer.Partition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range partitions {
		if p.Lost || p.Doubt {
			d.all[place{slot, int(p.Index), p.Topic.Name}] = doubt{next: p.Next, lost: p.Lost}
		}
	}
}

// noteOwn takes a batch of the slot, of which some records may be the last that the checkpoint knows of a partition: nobody knows
// whether the process that wrote them had an answer that left a doubt, or what others have written since.
func (d *Doubts) noteOwn(c logread.Control, known change.Offsets) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for topic, ends := range c.Ends() {
		for p, next := range ends {
			at := place{c.Slot, p, topic}
			if beyond := d.all[at].lost && d.all[at].next == next; next == known[topic][p] && !beyond { // of several the last counts
				d.all[at] = doubt{next: next, of: written{c.Epoch, c.Batch}}
			}
		}
	}
}

// of returns the doubt about a partition whose next offset is the checkpoint's. A doubt about other offsets is out of date: the
// checkpoint has moved on, after what was lost was written again.
func (d *Doubts) of(at place, next int64) (found doubt, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, ok = d.all[at]
	return found, ok && found.next == next
}

// hasLost reports whether a partition has lost the record before the checkpoint's next offset, although its end is past that.
func (l *Slot) hasLost(ctx context.Context, topic string, partition int, next int64) (bool, error) {
	if missing, ok := l.missing[topic][partition]; ok && missing == next {
		return true, nil
	}
	doubt, ok := l.Doubts.of(place{l.slot, partition, topic}, next)
	if !ok || doubt.lost {
		return ok, nil
	}
	return l.isOther(ctx, topic, partition, next-1, doubt.of)
}

// noteMissing looks whether a batch of the tail that lacks records has lost its last ones. Others compaction may have removed.
func (l *Slot) noteMissing(ctx context.Context, c logread.Control) error {
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

// isOther reports whether what has an offset now is not the slot's record that had it: another slot's, a marker, or one of a later batch,
// which was aborted. Retention may have left nothing there, which proves nothing.
func (l *Slot) isOther(ctx context.Context, topic string, partition int, offset int64, of written) (other bool, err error) {
	r := consumer.New(l.Client, consumer.Range{Topic: topic, Partition: int32(partition), First: offset, NoValues: true,
		Wanted: func(f *consumer.Record) bool {
			other = other || f.Offset == offset && !l.wrote(f, of)
			return false
		},
		Marker: func(at int64) { other = other || at == offset }})
	if err = r.ReadTo(ctx, offset); errors.Is(err, consumer.ErrGone) {
		err = nil
	}
	return other, err
}

func (l *Slot) wrote(f *consumer.Record, of written) bool {
	return f.Headers[change.HeaderSlot] == strconv.Itoa(l.slot) &&
		(of.batch == 0 || f.Headers[change.HeaderEpoch] == strconv.FormatInt(of.epoch, 10) &&
			f.Headers[change.HeaderBatch] == strconv.FormatUint(of.batch, 10))
}

package kafka

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/consumer"
)

const (
	// These bound how much of the tail is read at once: several small batches together, since each has few records in each of
	// many partitions, or one that is larger.
	groupChanges = 1000
	groupBytes   = 4 << 20
	// maxHole is up to how many records between two batches are read and dropped, which is faster than another fetch.
	maxHole = 1000
	// controlFetch bounds how many batch records of a tail wait in memory.
	controlFetch = 64 << 10
)

// tailBatch is a batch record found after the checkpoint.
type tailBatch struct {
	change.Control
	next int64 // the offset after it
}

// tailReader reads the tail batch by batch.
type tailReader struct {
	log     *slotLog
	seq     uint64           // of the last batch that was found
	batches []tailBatch      // found, and not delivered yet
	topics  map[string]error // nil: the topic exists; otherwise it is gone
}

// readTail calls visit with each batch as it is read.
func (l *slotLog) readTail(ctx context.Context, visit func(*sinks.Recovered) error) error {
	t := l.after
	if t == nil || t.lost != nil || t.seq == t.from.Seq {
		return nil
	}
	r := &tailReader{log: l, seq: t.from.Seq, topics: map[string]error{}}
	at := l.controlRange(l.control.Index, t.first, r.add)
	at.MaxBytes = controlFetch
	reader := consumer.New(l.sink.client, at)
	for r.seq < t.seq {
		more, err := reader.Fetch(ctx, l.openOffset-1)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := r.deliver(ctx, visit); err != nil {
			return err
		}
	}
	if r.seq < t.seq {
		return gone("batch %d in %s", r.seq+1, l.control.Topic.Name)
	}
	return nil
}

func (r *tailReader) add(f consumer.Record) error {
	if c := controlOf(f); r.log.after.follows(c) {
		if c.Batch != r.seq+1 {
			return gone("batch %d in %s", r.seq+1, r.log.control.Topic.Name)
		}
		r.seq = c.Batch
		r.batches = append(r.batches, tailBatch{*c, f.Offset + 1})
	}
	return nil
}

// deliver reads the changes of the batches that were found, group by group. If something of a group is gone, it reads the
// group's batches one by one: those before the gap are complete.
func (r *tailReader) deliver(ctx context.Context, visit func(*sinks.Recovered) error) error {
	for n := 0; len(r.batches) > 0; r.batches = r.batches[n:] {
		n = r.next()
		recovered, err := r.read(ctx, r.batches[:n])
		if errors.Is(err, consumer.ErrGone) && n > 1 {
			n = 1
			recovered, err = r.read(ctx, r.batches[:n])
		}
		if err != nil {
			return err
		}
		for _, b := range recovered {
			if err := b.check(); err != nil {
				return cmp.Or(r.log.noteMissing(ctx, b.batch), err)
			}
			if err := visit(r.recovered(b)); err != nil {
				return err
			}
		}
	}
	return nil
}

// next is how many batches to read at once.
func (r *tailReader) next() int {
	changes, bytes := 0, int64(0)
	for i := range r.batches {
		changes, bytes = changes+r.batches[i].Changes, bytes+r.batches[i].Bytes
		if i > 0 && (changes > groupChanges || bytes > groupBytes) {
			return i
		}
	}
	return len(r.batches)
}

// read reads the changes of consecutive batches. In the place of what was too large are stubs, and nobody needs the dead letters:
// the object's next change has the stub as the object before it.
func (r *tailReader) read(ctx context.Context, batches []tailBatch) ([]*decoder, error) {
	g := newGroup(batches)
	spans := g.spans()
	delete(spans, change.DeadLetterTopic(r.log.envelope.Prefix))
	for topic, parts := range spans {
		if err := r.scan(ctx, g, topic, parts); err != nil {
			return nil, err
		}
	}
	return g.batches, nil
}

func (r *tailReader) recovered(b *decoder) *sinks.Recovered {
	t := b.batch
	offsets := change.Offsets{r.log.control.Topic.Name: {int(r.log.control.Index): t.next}}
	for topic, ranges := range t.Ranges {
		for p, ends := range ranges {
			offsets.Merge(change.Offsets{topic: {p: ends[1] + 1}})
		}
	}
	recovered := &sinks.Recovered{Offsets: offsets,
		Batch: change.Batch{Slot: t.Slot, Epoch: t.Epoch, Seq: t.Batch, Positions: t.Positions, Changes: b.changes}}
	b.changes = nil
	return recovered
}

// scan visits the group's own records of one topic. Among them may be records of other slots and, with at-least-once delivery,
// of an owner that was being fenced.
func (r *tailReader) scan(ctx context.Context, g *group, topic string, spans map[int][]span) error {
	c := r.log.sink.client
	if len(spans) == 0 {
		return nil
	}
	if err := r.exists(ctx, topic); err != nil {
		return err
	}
	for p, list := range spans {
		for _, at := range list {
			reader := consumer.New(c, consumer.Range{Topic: topic, Partition: int32(p), First: at.first, Committed: true,
				Wanted: func(f *consumer.Record) bool { return g.owner(f) != nil },
				Visit: func(f consumer.Record) error {
					b := g.owner(&f)
					if ends := b.batch.Ranges[topic][p]; f.Offset < ends[0] || f.Offset > ends[1] {
						return nil
					}
					return b.addChange(ctx, r.log.sink.encodings, f)
				}})
			if err := reader.ReadTo(ctx, at.last); err != nil {
				return err
			}
		}
	}
	return nil
}

// exists looks for each topic once. The error is ErrGone for one that was deleted.
func (r *tailReader) exists(ctx context.Context, topic string) error {
	err, known := r.topics[topic]
	if !known {
		exists, e := r.log.sink.client.Exists(ctx, topic)
		if e != nil {
			return e
		}
		if !exists {
			err = gone("topic %s", topic)
		}
		r.topics[topic] = err
	}
	return err
}

// group has the batches of one slot that are read at once.
type group struct {
	batches []*decoder
	slot    string
	owners  map[owner]*decoder
}

// owner identifies a batch by the headers of its records.
type owner struct{ epoch, batch string }

func newGroup(batches []tailBatch) *group {
	g := &group{slot: strconv.Itoa(batches[0].Slot), owners: map[owner]*decoder{}}
	for i := range batches {
		t := &batches[i]
		b := &decoder{batch: t}
		g.batches = append(g.batches, b)
		g.owners[owner{strconv.FormatInt(t.Epoch, 10), strconv.FormatUint(t.Batch, 10)}] = b
	}
	return g
}

// owner returns the batch of a record; nil if that is not in the group.
func (g *group) owner(f *consumer.Record) *decoder {
	if f.Headers[change.HeaderSlot] != g.slot {
		return nil
	}
	return g.owners[owner{f.Headers[change.HeaderEpoch], f.Headers[change.HeaderBatch]}]
}

// span is a range of offsets, both ends included.
type span struct{ first, last int64 }

// spans are the offsets to read of each topic and partition: the ranges of the batches, joined where the hole is small.
func (g *group) spans() map[string]map[int][]span {
	all := map[string]map[int][]span{}
	for _, b := range g.batches {
		for topic, ranges := range b.batch.Ranges {
			if all[topic] == nil {
				all[topic] = map[int][]span{}
			}
			for p, ends := range ranges {
				list := all[topic][p]
				if n := len(list); n > 0 && ends[0]-list[n-1].last <= maxHole {
					list[n-1].last = max(list[n-1].last, ends[1])
				} else {
					list = append(list, span{ends[0], ends[1]})
				}
				all[topic][p] = list
			}
		}
	}
	return all
}

package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"

	"kubecdc/change"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// encode makes the partition's next record batch, if none is pending: as many items as fit the aim. Where
// compression was overrated the batch is halved; one record that does not fit by itself is buried.
func (l *slotLog) encode(ctx context.Context, p *partition) error {
	for p.pending == nil {
		items := l.fill(p)
		plain, count := l.encoder.Size(), l.encoder.Count()
		sealed, err := l.encoder.Seal(l.buffers.get(), recordbatch.Producer{
			ID: l.producer.id, Epoch: l.producer.epoch,
			Sequence: p.sequence, Transactional: l.producer.transactional,
		})
		if err != nil {
			return fmt.Errorf("compress a batch for %s: %w", p.topic.name, err)
		}
		size := len(sealed) - recordbatch.SizePrefix
		p.topic.learn(plain, size)
		p.pendingItems, p.pendingRecords = items, count
		if size <= p.topic.limit {
			p.pending = sealed
			return nil
		}
		l.buffers.put(sealed)
		switch {
		case items > 1:
			p.most = items / 2
		case len(p.records) > 0:
			return &Error{Op: "write to " + p.topic.name, Hint: hints[kafka.MessageSizeTooLarge],
				Err: fmt.Errorf("a control record of %d bytes is above the limit of %d", size, p.topic.limit)}
		default:
			err := l.bury(ctx, p, p.queue[p.next], size, tooLarge{size, p.topic.limit})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// buffers are those of record batches that were sent: as many as partitions are written at a time.
type buffers [][]byte

// maxIdle bounds what is kept for the next batch.
const maxIdle = 32

func (b *buffers) get() []byte {
	if len(*b) == 0 {
		return nil
	}
	last := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return last
}

func (b *buffers) put(buffer []byte) {
	if len(*b) < maxIdle && cap(buffer) <= maxPlain {
		*b = append(*b, buffer)
	}
}

// tooLarge says why a record was not sent as it is.
type tooLarge struct{ size, limit int }

func (e tooLarge) Error() string {
	return fmt.Sprintf("a record batch of %d bytes is above the topic's limit of %d", e.size, e.limit)
}

// fill appends items to the encoder until the aim is reached, and says how many.
func (l *slotLog) fill(p *partition) int {
	l.encoder.Reset()
	aim, left := p.topic.plainAim(), p.items()-p.next
	if p.most > 0 {
		left = min(left, p.most)
	}
	for i := range left {
		if i > 0 && l.encoder.Size()+l.itemSize(p, p.next+i) > aim {
			return i
		}
		l.appendItem(p, p.next+i)
	}
	return left
}

// itemSize is about how large an item is before compression.
func (l *slotLog) itemSize(p *partition, i int) int {
	if len(p.records) > 0 {
		return p.records[i].ValueLen() + 256
	}
	c := &l.batch.Changes[p.queue[i]]
	return c.Size() + 600
}

func (l *slotLog) appendItem(p *partition, i int) {
	if len(p.records) > 0 {
		l.encoder.Append(&p.records[i])
		return
	}
	l.appendChange(p, p.queue[i])
}

// appendChange appends the record of a change; a delete is followed by its tombstone.
func (l *slotLog) appendChange(p *partition, index int32) {
	c := &l.batch.Changes[index]
	r := recordbatch.Record{Time: c.Time.UnixMilli(), Key: l.key(index)}
	var value change.Value
	if b := l.buried[index]; b != nil {
		value = l.envelope.Value(l.tail[:0], &b.stub, &b.dead)
		r.Headers, r.HeaderCount = l.changeHeaders(c, b.dead.ID)
	} else {
		value = l.envelope.Value(l.tail[:0], c, nil)
		r.Headers, r.HeaderCount = l.changeHeaders(c, "")
	}
	r.Value, l.tail = value[:], value[len(value)-1]
	l.encoder.Append(&r)
	if c.Op == change.Delete {
		r.Tombstone = true
		l.encoder.Append(&r)
	}
}

func (l *slotLog) key(index int32) []byte {
	start := 0
	if index > 0 {
		start = l.keyEnd[index-1]
	}
	return l.keys[start:l.keyEnd[index]]
}

// changeHeaders encodes the headers of a change's record; they are valid until the next call.
func (l *slotLog) changeHeaders(c *change.Change, dead string) ([]byte, int) {
	n := 4
	h := recordbatch.AppendHeader(l.headers[:0], change.HeaderOp, c.Op.String())
	h = recordbatch.AppendHeader(h, change.HeaderUID, c.UID)
	h = recordbatch.AppendHeader(h, change.HeaderResourceVersion, string(c.ResourceVersion))
	h = recordbatch.AppendHeader(h, change.HeaderStream, string(c.Stream.ID()))
	if c.Inferred {
		h = recordbatch.AppendHeader(h, change.HeaderInferred, "true")
		n++
	}
	if c.Gap != "" {
		h = recordbatch.AppendHeader(h, change.HeaderGap, c.Gap)
		n++
	}
	if dead != "" {
		h = recordbatch.AppendHeader(h, change.HeaderDeadLetter, dead)
		n++
	}
	l.headers = append(h, l.shared...)
	return l.headers, n + l.sharedCount
}

func kafkaCode(err error) kafka.Error {
	var code kafka.Error
	errors.As(err, &code)
	return code
}

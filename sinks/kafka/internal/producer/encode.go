package producer

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"

	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// Source has the items that partitions queue. An item is one record, or a few that must be in one batch.
type Source interface {
	// Size returns about how many bytes an item takes before compression.
	Size(item int32) int
	// Append appends the item's records.
	Append(e *recordbatch.Encoder, item int32)
	// TooLarge is called if an item is refused even alone, in a record batch with this size. The source makes it smaller, and it
	// is sent again. Or it returns an error, which ends Produce. It may call Produce for other partitions.
	TooLarge(ctx context.Context, p *Partition, item int32, size int, cause error) error
	// Failed may return another error in place of a topic's error. The returned error ends Produce. If it is nil, the topic's
	// error remains.
	Failed(topic string, err error) error
}

// LimitError is the reason why a record was not sent unchanged.
type LimitError struct{ Size, Limit int }

func (e LimitError) Error() string {
	return fmt.Sprintf("a record batch of %d bytes is above the topic's limit of %d", e.Size, e.Limit)
}

// encode makes the partition's next record batch, if none is pending, from as much of the queue as the aim allows. If compression
// was overestimated, it halves the batch. A single item that is too large goes to the Source.
func (p *Producer) encode(ctx context.Context, q *Partition) error {
	if q.sender != p.identity {
		q.sender, q.sequence = p.identity, 0
	}
	for q.pending == nil {
		queued := p.fill(q)
		plain, count := p.encoder.Size(), p.encoder.Count()
		sealed, err := p.encoder.Seal(recordbatch.Producer{
			ID: p.identity.id, Epoch: p.identity.epoch, Sequence: q.sequence, Transactional: !p.Idempotent,
		})
		if err != nil {
			return fmt.Errorf("compress a batch for %s: %w", q.Topic.Name, err)
		}
		size := len(sealed.Bytes) - recordbatch.SizePrefix
		q.Topic.learn(plain, size)
		q.pendingItems, q.pendingRecords = queued, count
		if size <= q.Topic.limit {
			q.pending = sealed
			return nil
		}
		sealed.Release()
		switch {
		case queued > 1:
			q.most = queued / 2
		case len(q.records) > 0:
			return p.recordTooLarge(q, LimitError{size, q.Topic.limit})
		default:
			if err := p.Source.TooLarge(ctx, q, q.items[q.next], size, LimitError{size, q.Topic.limit}); err != nil {
				return err
			}
		}
	}
	return nil
}

// recordTooLarge returns the error for a record that is not an item.
func (p *Producer) recordTooLarge(q *Partition, cause error) error {
	return &cluster.Error{Op: "write to " + q.Topic.Name, Err: cause, Hint: p.client.Hint(kafka.MessageSizeTooLarge)}
}

// fill appends from the queue to the encoder until the aim is reached, and returns how much.
func (p *Producer) fill(q *Partition) int {
	p.encoder.Reset()
	aim, left := q.Topic.plainAim(), q.Queued()-q.next
	if q.most > 0 {
		left = min(left, q.most)
	}
	for i := range left {
		if i > 0 && p.encoder.Size()+p.sizeOf(q, q.next+i) > aim {
			return i
		}
		if len(q.records) > 0 {
			p.encoder.Append(&q.records[q.next+i])
		} else {
			p.Source.Append(p.encoder, q.items[q.next+i])
		}
	}
	return left
}

func (p *Producer) sizeOf(q *Partition, i int) int {
	if len(q.records) > 0 {
		return q.records[i].ValueLen() + 256 // for key and headers
	}
	return p.Source.Size(q.items[i])
}

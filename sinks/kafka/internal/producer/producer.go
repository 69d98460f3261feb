// Package producer is the idempotent and transactional producer that kafka-go lacks (KIP-98). A Producer gets its id and epoch
// from the transaction coordinator (InitProducerID), which fences every earlier producer with the same transactional id. It adds
// partitions to a transaction (AddPartitionsToTxn), sends record batches with sequence numbers (Produce), and commits or aborts
// (EndTxn). By protocol 2 (KIP-890) the brokers themselves add partitions at Produce. The end of each transaction then gives the
// producer its next epoch, or another id once there is no next one. The protocol guide describes the requests
// (https://kafka.apache.org/protocol).
//
// It knows nothing of the content of records: a Source appends them, and decides what happens to one that is too large.
package producer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// Options are a producer's settings. All are required except Codec, and Source if only records are queued.
type Options struct {
	TransactionalID string
	// Idempotent gives the producer the identity and the fencing of its transactional id, without transactions.
	Idempotent bool
	// Timeout is when the coordinator aborts an open transaction.
	Timeout time.Duration
	Codec   recordbatch.Codec // nil: no compression
	Source  Source            // has the items that Produce sends
	// Protocol1 means that protocol 2 is not used. A check of which partitions may be added also sets it, since protocol 2 adds
	// none without a record.
	Protocol1 bool
}

// Producer is one producer with one epoch. One goroutine uses it.
//
// Invariants:
//  1. A newer producer with the same transactional id has a higher epoch. The brokers refuse all others (cluster.Fenced).
//  2. Every request is repeated unchanged until its outcome is known. Each is idempotent.
//  3. Records of one partition are written in order: one record batch is in flight to it at a time.
//  4. By protocol 2 no two transactions have the same identity, so no late request of one gets into another.
type Producer struct {
	Options
	client      *cluster.Client
	identity    identity
	lacking     string // why protocol 2 is not used, or empty
	coordinator int32  // broker id, or -1 if unknown
	open        bool   // a transaction was begun and has not ended
	ending      bool   // its end was requested
	ended       time.Time

	encoder *recordbatch.Encoder
}

// identity is how the brokers know a producer. Its sequence numbers in each partition begin at 0.
type identity struct {
	id    int64
	epoch int16
}

// New fences every earlier producer with the transactional id. If that has an open transaction, the coordinator aborts it before
// New returns. A transaction whose commit was requested is committed.
//
// An idempotent producer also fences: even without transactions, a partition refuses an older epoch once it has records of the
// newer one.
func New(ctx context.Context, c *cluster.Client, o Options) (*Producer, error) {
	p := &Producer{Options: o, client: c, coordinator: -1, encoder: recordbatch.NewEncoder(o.Codec)}
	switch {
	case o.Idempotent:
		p.lacking = "no transactions are made"
	case o.Protocol1:
		p.lacking = "it is not asked for"
	default:
		var err error
		if p.lacking, err = c.LacksProtocol2(ctx); err != nil {
			return p, err
		}
	}
	return p, c.Try(ctx, "fence earlier producers of "+o.TransactionalID, func(ctx context.Context) error {
		m, err := c.RoundTrip(ctx, &initproducerid.Request{
			TransactionalID: o.TransactionalID, TransactionTimeoutMs: int32(o.Timeout.Milliseconds()),
			ProducerID: -1, ProducerEpoch: -1, // a new producer. Other values would continue as an older one (KIP-360)
		})
		if err != nil {
			return err
		}
		res := m.(*initproducerid.Response)
		p.identity = identity{res.ProducerID, res.ProducerEpoch}
		return cluster.CodeError(res.ErrorCode)
	})
}

// InTransaction reports whether a transaction was begun, and its end not yet requested.
func (p *Producer) InTransaction() bool { return p.open && !p.ending }

// Protocol returns the protocol of the transactions, 1 or 2, and why it is not 2.
func (p *Producer) Protocol() (n int, why string) {
	if p.lacking == "" {
		return 2, ""
	}
	return 1, p.lacking
}

// Add adds partitions to the transaction, and begins it. With protocol 2 Produce adds them on the broker. The error may be a
// DeniedTopics.
func (p *Producer) Add(ctx context.Context, partitions ...*Partition) error {
	if p.Idempotent || len(partitions) == 0 {
		return nil
	}
	if p.lacking == "" {
		if !p.open {
			p.settle(ctx)
		}
		p.open = true
		return nil
	}
	p.open = true
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.Version, req.TransactionalID = addVersion, p.TransactionalID
	req.ProducerID, req.ProducerEpoch = p.identity.id, p.identity.epoch
	for topic, group := range byTopic(partitions) {
		t := kmsg.AddPartitionsToTxnRequestTopic{Topic: topic}
		for _, q := range group {
			t.Partitions = append(t.Partitions, q.Index)
		}
		req.Topics = append(req.Topics, t)
	}
	return p.client.Try(ctx, "begin a transaction of "+p.TransactionalID, func(ctx context.Context) error {
		return p.askCoordinator(ctx, func() error {
			m, err := p.exchange(ctx, req, p.coordinator)
			if err != nil {
				return err
			}
			return firstError(m.(*kmsg.AddPartitionsToTxnResponse))
		})
	})
}

// firstError returns the first error, but not OPERATION_NOT_ATTEMPTED, the broker's answer for partitions next to a failed one.
// If all failures are missing rights to write, it returns all these topics.
func firstError(res *kmsg.AddPartitionsToTxnResponse) error {
	const notAttempted = 55 // OPERATION_NOT_ATTEMPTED
	var skipped error
	var denied DeniedTopics
	for _, t := range res.Topics {
		for _, r := range t.Partitions {
			err := cluster.CodeError(r.ErrorCode)
			switch {
			case err == nil:
			case r.ErrorCode == notAttempted:
				skipped = fmt.Errorf("%s/%d: %w", t.Topic, r.Partition, err)
			case errors.Is(err, kafka.TopicAuthorizationFailed):
				denied = append(denied, t.Topic)
			default:
				return fmt.Errorf("%s/%d: %w", t.Topic, r.Partition, err)
			}
		}
	}
	if denied = slices.Compact(denied); len(denied) > 0 {
		return denied
	}
	return skipped
}

// DeniedTopics are topics without the right to write.
type DeniedTopics []string

func (d DeniedTopics) Error() string { return strings.Join(d, ", ") + ": " + d.Unwrap().Error() }
func (d DeniedTopics) Unwrap() error { return kafka.TopicAuthorizationFailed }

// End commits or aborts the transaction, if one is open.
func (p *Producer) End(ctx context.Context, commit bool) error {
	if !p.open {
		return nil
	}
	p.ending = true
	op := "commit a transaction of " + p.TransactionalID
	if !commit {
		op = "abort a transaction of " + p.TransactionalID
	}
	err := p.client.Try(ctx, op, func(ctx context.Context) error {
		return p.askCoordinator(ctx, func() error { return p.end(ctx, commit) })
	})
	if err == nil {
		p.open, p.ending, p.ended = false, false, time.Now()
	}
	return err
}

// end takes the next identity by protocol 2. The coordinator recognizes a repeated request by the previous identity. Until the
// first request is done, it answers so. Afterwards it repeats its first answer. If another producer has acted in between, the
// epoch has risen by more than one, and the repeat is refused as fenced. Protocol 2 can abort a transaction without partitions.
//
// If the coordinator itself has aborted a transaction, it has also raised the epoch by one. It then mistakes the commit for a
// repeat of that abort, and answers INVALID_TXN_STATE. By protocol 1 it answers that the producer is fenced, so that is the
// meaning here, too.
func (p *Producer) end(ctx context.Context, commit bool) error {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.Commit, req.Version = p.TransactionalID, commit, endVersion
	req.ProducerID, req.ProducerEpoch = p.identity.id, p.identity.epoch
	if p.lacking == "" {
		req.Version = cluster.TransactionalEnd
	}
	answer, err := p.exchange(ctx, req, p.coordinator)
	if err != nil {
		return err
	}
	res := answer.(*kmsg.EndTxnResponse)
	if res.ErrorCode == 0 && res.ProducerID >= 0 {
		p.identity = identity{res.ProducerID, res.ProducerEpoch}
	}
	err = cluster.CodeError(res.ErrorCode)
	if p.lacking == "" && commit && errors.Is(err, kafka.InvalidTransactionState) {
		return kafka.ProducerFenced
	}
	return err
}

// askCoordinator finds the coordinator if it is unknown, and searches again after an error that may mean that it moved.
func (p *Producer) askCoordinator(ctx context.Context, ask func() error) (err error) {
	if p.coordinator < 0 {
		if p.coordinator, err = p.client.Coordinator(ctx, p.TransactionalID); err != nil {
			return err
		}
	}
	if err = ask(); err != nil && cluster.Judge(err) == cluster.Refresh {
		p.coordinator = -1
	}
	return err
}

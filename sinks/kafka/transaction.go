package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/endtxn"
	"github.com/segmentio/kafka-go/protocol/initproducerid"

	"kubecdc/sinks/kafka/internal/cluster"
)

// producer is the identity that the broker knows a slot's writer by.
//
// Invariants:
//  1. A newer producer of the same transactional id has a higher epoch; the broker refuses all others (fenced).
//  2. Every request is repeated as it is until its outcome is known; each is idempotent.
type producer struct {
	client        *cluster.Client
	transactional bool
	txnID         string
	id            int64
	epoch         int16
	coordinator   int32 // broker id; -1: not known
	open          bool  // a transaction was begun and not yet ended
	ending        bool  // its end was asked for
}

// transactionalID is a cluster's own, so that no other of the same name is fenced.
func transactionalID(cfg *Config, uid string, slot int) string {
	return fmt.Sprintf("%s-%s-%s-slot-%d", cfg.TopicPrefix, cfg.Cluster, uid, slot)
}

// transactionalPrefix is what all transactional ids of the cluster begin with.
func (s *Sink) transactionalPrefix() string { return s.cfg.TopicPrefix + "-" + s.cfg.Cluster + "-" }

// newProducer fences every earlier producer of the slot. Its transaction, if one is open, is aborted by the
// broker before this returns; one whose commit was asked for is committed.
//
// At-least-once mode has the same identity: without transactions too, a partition refuses an older epoch once
// it has seen the newer one.
func newProducer(ctx context.Context, s *Sink, uid string, slot int) (*producer, error) {
	p := &producer{client: s.client, txnID: transactionalID(&s.cfg, uid, slot), coordinator: -1,
		transactional: s.cfg.Delivery == ExactlyOnce}
	return p, p.init(ctx, s.cfg.TransactionTimeout)
}

// init gets the producer's number and epoch.
func (p *producer) init(ctx context.Context, timeout time.Duration) error {
	return p.client.Try(ctx, "fence earlier writers of "+p.txnID, func(ctx context.Context) error {
		m, err := p.client.RoundTrip(ctx, &initproducerid.Request{
			TransactionalID: p.txnID, TransactionTimeoutMs: int32(timeout.Milliseconds()),
			ProducerID: -1, ProducerEpoch: -1, // as a new process: anything else asks to go on as an older one
		})
		if err != nil {
			return err
		}
		res := m.(*initproducerid.Response)
		p.id, p.epoch = res.ProducerID, res.ProducerEpoch
		return cluster.CodeError(res.ErrorCode)
	})
}

// add makes partitions part of the transaction, which begins with the first.
func (p *producer) add(ctx context.Context, partitions []*partition) error {
	if !p.transactional || len(partitions) == 0 {
		return nil
	}
	topics := groupByTopic(partitions)
	p.open = true
	err := p.client.Try(ctx, "begin a transaction of "+p.txnID, func(ctx context.Context) error {
		return p.askCoordinator(ctx, func() error {
			m, err := p.client.RoundTrip(ctx, &addPartitionsRequest{
				TransactionalID: p.txnID, ProducerID: p.id, ProducerEpoch: p.epoch, Topics: topics,
				coordinator: p.coordinator,
			})
			if err != nil {
				return err
			}
			return firstError(m.(*addpartitionstotxn.Response))
		})
	})
	for _, q := range partitions {
		q.inTxn = err == nil
	}
	return err
}

func groupByTopic(partitions []*partition) []addpartitionstotxn.RequestTopic {
	var topics []addpartitionstotxn.RequestTopic
	at := map[*topic]int{}
	for _, p := range partitions {
		i, ok := at[p.topic]
		if !ok {
			i = len(topics)
			at[p.topic] = i
			topics = append(topics, addpartitionstotxn.RequestTopic{Name: p.topic.name})
		}
		topics[i].Partitions = append(topics[i].Partitions, p.index)
	}
	return topics
}

// firstError skips "not attempted", which the broker says of the partitions beside a failed one. Where all that failed are
// topics that the user may not write to, it names them all.
func firstError(res *addpartitionstotxn.Response) error {
	const notAttempted = 55 // OPERATION_NOT_ATTEMPTED
	var skipped error
	var denied deniedTopics
	for _, t := range res.Results {
		for _, r := range t.Results {
			err := cluster.CodeError(r.ErrorCode)
			switch {
			case err == nil:
			case r.ErrorCode == notAttempted:
				skipped = fmt.Errorf("%s/%d: %w", t.Name, r.PartitionIndex, err)
			case errors.Is(err, kafka.TopicAuthorizationFailed):
				denied = append(denied, t.Name)
			default:
				return fmt.Errorf("%s/%d: %w", t.Name, r.PartitionIndex, err)
			}
		}
	}
	if denied = slices.Compact(denied); len(denied) > 0 {
		return denied
	}
	return skipped
}

// deniedTopics are topics that the user may not write to.
type deniedTopics []string

func (d deniedTopics) Error() string { return strings.Join(d, ", ") + ": " + d.Unwrap().Error() }
func (d deniedTopics) Unwrap() error { return kafka.TopicAuthorizationFailed }

// end commits or aborts the transaction. Asking again for the same end is harmless.
func (p *producer) end(ctx context.Context, commit bool) error {
	if !p.open {
		return nil
	}
	p.ending = true
	op := "commit a transaction of " + p.txnID
	if !commit {
		op = "abort a transaction of " + p.txnID
	}
	err := p.client.Try(ctx, op, func(ctx context.Context) error {
		return p.askCoordinator(ctx, func() error {
			m, err := p.client.RoundTrip(ctx, &endTxnRequest{
				TransactionalID: p.txnID, ProducerID: p.id, ProducerEpoch: p.epoch, Committed: commit,
				coordinator: p.coordinator,
			})
			if err != nil {
				return err
			}
			return cluster.CodeError(m.(*endtxn.Response).ErrorCode)
		})
	})
	if err == nil {
		p.open, p.ending = false, false
	}
	return err
}

// askCoordinator finds the coordinator if it is not known, and forgets it after an error that may mean that it
// moved.
func (p *producer) askCoordinator(ctx context.Context, ask func() error) error {
	if p.coordinator < 0 {
		var err error
		if p.coordinator, err = p.client.Coordinator(ctx, p.txnID); err != nil {
			return err
		}
	}
	err := ask()
	if err != nil && cluster.Judge(err) == cluster.Refresh {
		p.coordinator = -1
	}
	return err
}

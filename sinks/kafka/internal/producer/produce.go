package producer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// maxRequest bounds a produce request in bytes. Brokers accept 100 MiB (socket.request.max.bytes).
const maxRequest = 32 << 20

// Produce sends what is queued for the partitions, and returns when the broker has acknowledged all of it. Each round sends one
// record batch to each partition, which preserves their order. The partitions of a leader share a request.
func (p *Producer) Produce(ctx context.Context, partitions ...*Partition) error {
	a := p.client.Attempts("write to " + topicOf(partitions))
	defer func() { a.Done() }()
	for {
		partitions = unfinished(partitions)
		if len(partitions) == 0 {
			return nil
		}
		for _, q := range partitions {
			if err := p.encode(ctx, q); err != nil {
				return err
			}
		}
		err := p.sendRound(ctx, partitions)
		if err == nil {
			if a.Failed > 0 {
				a.Done()
				a = p.client.Attempts(a.Op)
			}
			continue
		}
		if a.Failed == 0 {
			a.Since = time.Now()
		}
		if err := a.Pause(ctx, err); err != nil {
			return err
		}
	}
}

// topicOf returns the name of one of the partitions' topics.
func topicOf(partitions []*Partition) string {
	if len(partitions) == 0 {
		return ""
	}
	return partitions[0].Topic.Name
}

func unfinished(partitions []*Partition) []*Partition {
	var left []*Partition
	for _, q := range partitions {
		if !q.done() {
			left = append(left, q)
		}
	}
	return left
}

// sendRound sends each partition's pending record batch once. It returns the worst error. A final error is worse than one to
// retry.
func (p *Producer) sendRound(ctx context.Context, partitions []*Partition) error {
	requests, err := p.groupByLeader(ctx, partitions)
	if err != nil {
		return err
	}
	errs := make([]error, len(requests))
	if len(requests) == 1 {
		errs[0] = p.produce(ctx, requests[0])
	} else {
		var wg sync.WaitGroup
		for i := range requests {
			wg.Go(func() { errs[i] = p.produce(ctx, requests[i]) })
		}
		wg.Wait()
	}
	var worst error
	for i, err := range errs {
		if err == nil {
			err = p.handleAnswers(ctx, requests[i])
		}
		worst = cluster.Worse(worst, err)
	}
	return worst
}

// request is sent to one broker at once.
type request struct {
	leader     int32
	partitions []*Partition
	size       int
	sent       int64 // number of connections before
}

// groupByLeader assigns the partitions to requests, each to one broker.
func (p *Producer) groupByLeader(ctx context.Context, partitions []*Partition) (requests []request, err error) {
	open := map[int32]int{} // by leader, the request that has room
	leaders, err := p.client.LeadersOf(ctx, slices.Collect(maps.Keys(byTopic(partitions)))...)
	if err != nil {
		return nil, fmt.Errorf("find the leaders of what is written to: %w", err)
	}
	for _, q := range partitions {
		byPartition := leaders[q.Topic.Name]
		if int(q.Index) >= len(byPartition) {
			return nil, fmt.Errorf("find the leader of %s/%d: %w", q.Topic.Name, q.Index, protocol.ErrNoPartition)
		}
		leader := byPartition[q.Index]
		n, ok := open[leader]
		if !ok || requests[n].size+len(q.pending.Bytes) > maxRequest {
			n = len(requests)
			open[leader] = n
			requests = append(requests, request{leader: leader, sent: p.client.Connections()})
		}
		requests[n].partitions = append(requests[n].partitions, q)
		requests[n].size += len(q.pending.Bytes)
	}
	return requests, nil
}

// answer is the broker's answer for one record batch.
type answer struct {
	code   int16
	offset int64
	text   string
}

const noAnswer = int16(kafka.NetworkException)

// handleAnswers records what was accepted, and makes batches smaller that were too large. It returns the worst of the other
// errors.
func (p *Producer) handleAnswers(ctx context.Context, r request) error {
	var worst error
	for _, q := range r.partitions {
		err := cluster.CodeError(q.answer.code)
		switch {
		case err == nil && q.answer.offset < q.Next:
			q.Lost = true
			err = cluster.Final(fmt.Errorf("%s/%d took records at offset %d after those at %d: the topic was deleted and made "+
				"again, "+
				"or the broker has lost records", q.Topic.Name, q.Index, q.answer.offset, q.Next-1))
		case err == nil:
			q.pending.Release()
			p.doubt(q, r)
			q.acknowledge(q.answer.offset)
			continue
		case cluster.Judge(err) == cluster.TooLarge:
			err = p.makeSmaller(ctx, q, err)
		default:
			q.Doubt = q.sequence > 0 && (errors.Is(err, kafka.OutOfOrderSequenceNumber) ||
				errors.Is(err, kafka.UnknownProducerId))
			err = fmt.Errorf("%s/%d: %w", q.Topic.Name, q.Index, cluster.WithText(err, q.answer.text))
			if p.Source == nil {
				break
			}
			if own := p.Source.Failed(q.Topic.Name, err); own != nil {
				err = cluster.Final(own)
			}
		}
		worst = cluster.Worse(worst, err)
	}
	return worst
}

// doubt records whether a partition may have lost the record before the acknowledged ones. By protocol 1 the broker would refuse
// these because of their sequence. A transaction's marker takes one offset. If a batch is written twice, the first answer counts,
// since before the second there is the aborted batch itself.
func (p *Producer) doubt(q *Partition, r request) {
	again := q.leader == r.leader && q.connections == p.client.Connections() && q.answer.offset == q.Next+1
	if p.lacking == "" && q.connections > 0 && !q.Written && !again && !q.MustCheck {
		q.MustCheck, q.Before = true, q.Next
	}
	q.leader, q.connections = r.leader, r.sent
}

// makeSmaller halves a record batch that the broker refuses, down to the one item that is too large, which goes to the Source.
func (p *Producer) makeSmaller(ctx context.Context, q *Partition, cause error) error {
	size := len(q.pending.Bytes) - recordbatch.SizePrefix
	if !errors.Is(cause, kafka.InvalidRecord) {
		q.Topic.learnRefused(size)
	}
	q.pending.Release()
	q.pending = nil
	if q.pendingItems > 1 {
		q.most = q.pendingItems / 2
		return nil
	}
	if len(q.records) > 0 {
		return p.recordTooLarge(q, cause)
	}
	if err := p.Source.TooLarge(ctx, q, q.items[q.next], size, cluster.WithText(cause, q.answer.text)); err != nil {
		return cluster.Final(err)
	}
	return nil
}

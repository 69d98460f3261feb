package producer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/rawproduce"

	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// maxRequest bounds a produce request; brokers take 100 MiB (socket.request.max.bytes).
const maxRequest = 32 << 20

// Produce sends what is queued for the partitions and returns when the broker has acknowledged all of it. Each round sends
// one record batch to each partition, so that their order is kept; the partitions of a leader share a request.
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

// topicOf names one of the topics that the partitions are of.
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

// sendRound sends each partition's pending record batch once. Of several errors it returns the worst: a final one rather
// than one that is retried.
func (p *Producer) sendRound(ctx context.Context, partitions []*Partition) error {
	requests, err := p.groupByLeader(ctx, partitions)
	if err != nil {
		return err
	}
	errs := make([]error, len(requests))
	if len(requests) == 1 {
		errs[0] = p.send(ctx, requests[0])
	} else {
		var wg sync.WaitGroup
		for i, partitions := range requests {
			wg.Go(func() { errs[i] = p.send(ctx, partitions) })
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

// groupByLeader assigns the partitions to requests, each to one broker.
func (p *Producer) groupByLeader(ctx context.Context, partitions []*Partition) ([][]*Partition, error) {
	type request struct{ at, size int }
	var requests [][]*Partition
	open := map[int32]request{}
	var topics []string
	seen := map[*Topic]bool{}
	for _, q := range partitions {
		if !seen[q.Topic] {
			seen[q.Topic] = true
			topics = append(topics, q.Topic.Name)
		}
	}
	leaders, err := p.client.LeadersOf(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("find the leaders of what is written to: %w", err)
	}
	for _, q := range partitions {
		of := leaders[q.Topic.Name]
		if int(q.Index) >= len(of) {
			return nil, fmt.Errorf("find the leader of %s/%d: %w", q.Topic.Name, q.Index, protocol.ErrNoPartition)
		}
		leader := of[q.Index]
		r, ok := open[leader]
		if !ok || r.size+len(q.pending.Bytes) > maxRequest {
			r = request{at: len(requests)}
			requests = append(requests, nil)
		}
		requests[r.at] = append(requests[r.at], q)
		r.size += len(q.pending.Bytes)
		open[leader] = r
	}
	return requests, nil
}

// send sends one request and notes each partition's answer in it.
func (p *Producer) send(ctx context.Context, partitions []*Partition) error {
	req := &rawproduce.Request{Acks: -1, Timeout: int32(p.client.RequestTimeout.Milliseconds() * 3 / 4)}
	if !p.Idempotent {
		req.TransactionalID = p.TransactionalID
	}
	at := map[*Topic]int{}
	for _, q := range partitions {
		i, ok := at[q.Topic]
		if !ok {
			i = len(req.Topics)
			at[q.Topic] = i
			req.Topics = append(req.Topics, rawproduce.RequestTopic{Topic: q.Topic.Name})
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, rawproduce.RequestPartition{
			Partition: q.Index, RecordSet: protocol.RawRecordSet{Reader: bytes.NewReader(q.pending.Bytes)},
		})
		q.answer = answer{code: noAnswer}
	}
	m, err := p.client.RoundTrip(ctx, req)
	if err != nil {
		return err
	}
	noteAnswers(m.(*produce.Response), partitions)
	return nil
}

// answer is the broker's answer for one record batch.
type answer struct {
	code   int16
	offset int64
	text   string
}

const noAnswer = int16(kafka.NetworkException)

func noteAnswers(res *produce.Response, partitions []*Partition) {
	for i := range res.Topics {
		t := &res.Topics[i]
		for j := range t.Partitions {
			a := &t.Partitions[j]
			for _, q := range partitions {
				if q.Index == a.Partition && q.Topic.Name == t.Topic {
					q.answer = answer{a.ErrorCode, a.BaseOffset, a.ErrorMessage}
				}
			}
		}
	}
}

// handleAnswers notes what was accepted and makes smaller what was too large. Of the other errors it returns the worst.
func (p *Producer) handleAnswers(ctx context.Context, partitions []*Partition) error {
	var worst error
	for _, q := range partitions {
		err := cluster.CodeError(q.answer.code)
		switch {
		case err == nil && q.answer.offset < q.Next:
			q.Lost = true
			err = cluster.Final(fmt.Errorf("%s/%d took records at offset %d after those at %d: the topic was deleted and made again, "+
				"or the broker has lost records", q.Topic.Name, q.Index, q.answer.offset, q.Next-1))
		case err == nil:
			q.pending.Release()
			q.acknowledge(q.answer.offset)
			continue
		case cluster.Judge(err) == cluster.TooLarge:
			err = p.makeSmaller(ctx, q, err)
		default:
			q.Doubt = q.sequence > 0 && (errors.Is(err, kafka.OutOfOrderSequenceNumber) || errors.Is(err, kafka.UnknownProducerId))
			err = fmt.Errorf("%s/%d: %w", q.Topic.Name, q.Index, cluster.WithText(err, q.answer.text))
			if own := p.Source.Failed(q.Topic.Name, err); own != nil {
				err = cluster.Final(own)
			}
		}
		worst = cluster.Worse(worst, err)
	}
	return worst
}

// makeSmaller halves a record batch that the broker does not accept, down to the one item that is too large, which goes to
// the Source.
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

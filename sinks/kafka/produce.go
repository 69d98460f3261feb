package kafka

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

	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// maxRequest bounds a produce request; brokers take 100 MiB (socket.request.max.bytes).
const maxRequest = 32 << 20

// produce sends what is queued for the partitions and returns when the broker has all of it. Each round sends
// one record batch a partition, so that their order is kept; the partitions of a leader share a request.
func (l *slotLog) produce(ctx context.Context, active []*partition) error {
	r := l.sink.client.Attempts("write to " + name(active))
	defer func() { r.Done() }()
	for {
		active = unfinished(active)
		if len(active) == 0 {
			return nil
		}
		for _, p := range active {
			if err := l.encode(ctx, p); err != nil {
				return err
			}
		}
		err := l.sendRound(ctx, active)
		if err == nil {
			if r.Failed > 0 {
				r.Done()
				r = l.sink.client.Attempts(r.Op)
			}
			continue
		}
		if r.Failed == 0 {
			r.Since = time.Now()
		}
		if err := r.Pause(ctx, err); err != nil {
			return err
		}
	}
}

// name tells one of the topics that the partitions are of.
func name(active []*partition) string {
	if len(active) == 0 {
		return ""
	}
	return active[0].topic.name
}

func unfinished(partitions []*partition) []*partition {
	var left []*partition
	for _, p := range partitions {
		if !p.done() {
			left = append(left, p)
		}
	}
	return left
}

// sendRound sends each partition's pending record batch once. Its error is the worst: one that must be retried,
// or one that ends the log.
func (l *slotLog) sendRound(ctx context.Context, active []*partition) error {
	requests, err := l.groupByLeader(ctx, active)
	if err != nil {
		return err
	}
	errs := make([]error, len(requests))
	if len(requests) == 1 {
		errs[0] = l.send(ctx, requests[0])
	} else {
		var wg sync.WaitGroup
		for i, partitions := range requests {
			wg.Go(func() { errs[i] = l.send(ctx, partitions) })
		}
		wg.Wait()
	}
	var worst error
	for i, err := range errs {
		if err == nil {
			err = l.settle(ctx, requests[i])
		}
		worst = cluster.Worse(worst, err)
	}
	return worst
}

// groupByLeader shares the partitions out to requests.
func (l *slotLog) groupByLeader(ctx context.Context, active []*partition) ([][]*partition, error) {
	type request struct{ at, size int }
	var requests [][]*partition
	open := map[int32]request{}
	leaders := map[*topic][]int32{}
	for _, p := range active {
		if leaders[p.topic] == nil {
			ids, err := l.sink.client.Leaders(ctx, p.topic.name)
			if err != nil {
				return nil, fmt.Errorf("find the leaders of %s: %w", p.topic.name, err)
			}
			leaders[p.topic] = ids
		}
		if int(p.index) >= len(leaders[p.topic]) {
			return nil, fmt.Errorf("find the leader of %s/%d: %w", p.topic.name, p.index, protocol.ErrNoPartition)
		}
		leader := leaders[p.topic][p.index]
		r, ok := open[leader]
		if !ok || r.size+len(p.pending) > maxRequest {
			r = request{at: len(requests)}
			requests = append(requests, nil)
		}
		requests[r.at] = append(requests[r.at], p)
		r.size += len(p.pending)
		open[leader] = r
	}
	return requests, nil
}

// send sends one request and notes each partition's answer in it.
func (l *slotLog) send(ctx context.Context, partitions []*partition) error {
	req := &rawproduce.Request{Acks: -1, Timeout: int32(l.sink.cfg.RequestTimeout.Milliseconds() * 3 / 4)}
	if l.producer.transactional {
		req.TransactionalID = l.producer.txnID
	}
	at := map[*topic]int{}
	for _, p := range partitions {
		i, ok := at[p.topic]
		if !ok {
			i = len(req.Topics)
			at[p.topic] = i
			req.Topics = append(req.Topics, rawproduce.RequestTopic{Topic: p.topic.name})
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, rawproduce.RequestPartition{
			Partition: p.index, RecordSet: protocol.RawRecordSet{Reader: bytes.NewReader(p.pending)},
		})
		p.answer = answer{code: noAnswer}
	}
	m, err := l.sink.client.RoundTrip(ctx, req)
	if err != nil {
		return err
	}
	noteAnswers(m.(*produce.Response), partitions)
	return nil
}

// answer is what the broker said of one record batch.
type answer struct {
	code   int16
	offset int64
	text   string
}

const noAnswer = int16(kafka.NetworkException)

func noteAnswers(res *produce.Response, partitions []*partition) {
	for i := range res.Topics {
		t := &res.Topics[i]
		for j := range t.Partitions {
			a := &t.Partitions[j]
			for _, p := range partitions {
				if p.index == a.Partition && p.topic.name == t.Topic {
					p.answer = answer{a.ErrorCode, a.BaseOffset, a.ErrorMessage}
				}
			}
		}
	}
}

// settle acts on the answers: what was accepted is done, what was refused is made smaller, and the worst of the
// others is returned.
func (l *slotLog) settle(ctx context.Context, partitions []*partition) error {
	var worst error
	for _, p := range partitions {
		err := cluster.CodeError(p.answer.code)
		switch {
		case err == nil:
			l.buffers.put(p.pending)
			p.acknowledged(p.answer.offset)
			continue
		case cluster.Judge(err) == cluster.TooLarge:
			if err = l.refused(ctx, p, err); err != nil {
				err = cluster.Final(err)
			}
		default:
			err = l.refusedTopic(p.topic.name, fmt.Errorf("%s/%d: %w", p.topic.name, p.index, withText(err, p.answer.text)))
			var refusal *sinks.RefusedError
			if errors.As(err, &refusal) {
				err = cluster.Final(err)
			}
		}
		worst = cluster.Worse(worst, err)
	}
	return worst
}

func withText(err error, text string) error {
	if err == nil || text == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, text)
}

// refused halves a record batch that the broker does not take, down to the one record that is at fault: a
// change then goes to the dead-letter topic.
func (l *slotLog) refused(ctx context.Context, p *partition, cause error) error {
	size := len(p.pending) - recordbatch.SizePrefix
	if kafkaCode(cause) != kafka.InvalidRecord {
		p.topic.learnRefused(size)
	}
	l.buffers.put(p.pending)
	p.pending = nil
	if p.pendingItems > 1 {
		p.most = p.pendingItems / 2
		return nil
	}
	if len(p.records) > 0 {
		return &Error{Op: "write to " + p.topic.name, Err: cause, Hint: hints[kafka.MessageSizeTooLarge]}
	}
	return l.bury(ctx, p, p.queue[p.next], size, withText(cause, p.answer.text))
}

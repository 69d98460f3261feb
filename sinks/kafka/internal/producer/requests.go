package producer

import (
	"context"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kubecdc/internal/wait"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// kafka-go's own AddPartitionsToTxn and EndTxn search for the coordinator before every request, which is two more round trips for
// each transaction. These requests go to the coordinator that the producer knows.

// These are the versions of requests outside of protocol 2. Every supported broker has them.
const (
	addVersion     = 3
	endVersion     = 3
	produceVersion = 8
)

func (p *Producer) exchange(ctx context.Context, req kmsg.Request, to int32) (kmsg.Response, error) {
	m, err := p.client.RoundTrip(ctx, &cluster.BrokerRequest{Request: req, To: to, ClientID: p.client.ClientID,
		Transactional: p.lacking == ""})
	if err != nil {
		return nil, err
	}
	return m.(cluster.BrokerAnswer).Response, nil
}

// produce sends one request, and records each partition's answer in it. By protocol 2 it adds the partitions to the transaction.
func (p *Producer) produce(ctx context.Context, r request) error {
	for _, q := range r.partitions {
		q.answer = answer{code: noAnswer}
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis, req.Version = -1, p.produceTimeout(), produceVersion
	if p.lacking == "" {
		req.Version = cluster.TransactionalProduce
	}
	if !p.Idempotent {
		req.TransactionID = &p.TransactionalID
	}
	sent := byTopic(r.partitions)
	for topic, partitions := range sent {
		t := kmsg.NewProduceRequestTopic()
		t.Topic = topic
		for _, q := range partitions {
			one := kmsg.NewProduceRequestTopicPartition()
			one.Partition, one.Records = q.Index, q.pending.Bytes[recordbatch.SizePrefix:]
			t.Partitions = append(t.Partitions, one)
		}
		req.Topics = append(req.Topics, t)
	}
	m, err := p.exchange(ctx, req, r.leader)
	if err != nil {
		return err
	}
	for _, t := range m.(*kmsg.ProduceResponse).Topics {
		for _, a := range t.Partitions {
			text := ""
			if a.ErrorMessage != nil {
				text = *a.ErrorMessage
			}
			for _, q := range sent[t.Topic] {
				if q.Index == a.Partition {
					q.answer = answer{a.ErrorCode, a.BaseOffset, text}
				}
			}
		}
	}
	return nil
}

// settle waits until the coordinator has written the markers of a transaction that has just ended. Until then a broker would
// delay the first Produce of the next one by 20 ms at a time (add.partitions.to.txn.retry.backoff.ms). Other answers are left to
// Produce.
func (p *Producer) settle(ctx context.Context) {
	for time.Since(p.ended) < settleWithin {
		req := kmsg.NewPtrDescribeTransactionsRequest()
		req.TransactionalIDs = []string{p.TransactionalID}
		m, err := p.exchange(ctx, req, p.coordinator)
		if err != nil {
			return
		}
		states := m.(*kmsg.DescribeTransactionsResponse).TransactionStates
		if len(states) != 1 || !strings.HasPrefix(states[0].State, "Prepare") || wait.For(ctx, settleEvery) != nil {
			return
		}
	}
}

const (
	settleWithin = 20 * time.Millisecond
	settleEvery  = time.Millisecond / 2
)

// produceTimeout returns how long a broker may wait for its replicas, in milliseconds.
func (p *Producer) produceTimeout() int32 {
	return int32(p.client.RequestTimeout.Milliseconds() * 3 / 4)
}

func byTopic(partitions []*Partition) map[string][]*Partition {
	topics := map[string][]*Partition{}
	for _, q := range partitions {
		topics[q.Topic.Name] = append(topics[q.Topic.Name], q)
	}
	return topics
}

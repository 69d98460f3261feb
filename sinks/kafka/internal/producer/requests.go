package producer

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/endtxn"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kubecdc/internal/wait"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// kafka-go's own AddPartitionsToTxn and EndTxn look up the coordinator before every request, which is two round trips
// more for each transaction. These are the same messages, sent to the coordinator that the producer knows.

const toKnownCoordinator protocol.OverrideTypeKey = 1

func init() {
	protocol.RegisterOverride(&addPartitionsRequest{}, &addpartitionstotxn.Response{}, toKnownCoordinator)
	protocol.RegisterOverride(&endTxnRequest{}, &endtxn.Response{}, toKnownCoordinator)
}

type addPartitionsRequest struct {
	_ struct{} `kafka:"min=v3,max=v3,tag"`

	TransactionalID string                            `kafka:"min=v0,max=v2|min=v3,max=v3,compact"`
	ProducerID      int64                             `kafka:"min=v0,max=v3"`
	ProducerEpoch   int16                             `kafka:"min=v0,max=v3"`
	Topics          []addpartitionstotxn.RequestTopic `kafka:"min=v0,max=v3"`

	coordinator int32
}

func (r *addPartitionsRequest) ApiKey() protocol.ApiKey           { return protocol.AddPartitionsToTxn }
func (r *addPartitionsRequest) TypeKey() protocol.OverrideTypeKey { return toKnownCoordinator }
func (r *addPartitionsRequest) Broker(c protocol.Cluster) (protocol.Broker, error) {
	return cluster.BrokerByID(c, r.coordinator)
}

type endTxnRequest struct {
	_ struct{} `kafka:"min=v3,max=v3,tag"`

	TransactionalID string `kafka:"min=v0,max=v2|min=v3,max=v3,compact"`
	ProducerID      int64  `kafka:"min=v0,max=v3"`
	ProducerEpoch   int16  `kafka:"min=v0,max=v3"`
	Committed       bool   `kafka:"min=v0,max=v3"`

	coordinator int32
}

func (r *endTxnRequest) ApiKey() protocol.ApiKey           { return protocol.EndTxn }
func (r *endTxnRequest) TypeKey() protocol.OverrideTypeKey { return toKnownCoordinator }
func (r *endTxnRequest) Broker(c protocol.Cluster) (protocol.Broker, error) {
	return cluster.BrokerByID(c, r.coordinator)
}

var (
	_ protocol.BrokerMessage       = (*addPartitionsRequest)(nil)
	_ protocol.OverrideTypeMessage = (*addPartitionsRequest)(nil)
	_ protocol.BrokerMessage       = (*endTxnRequest)(nil)
	_ protocol.OverrideTypeMessage = (*endTxnRequest)(nil)
)

// exchange sends a request of protocol 2 to a broker.
func (p *Producer) exchange(ctx context.Context, req kmsg.Request, to int32) (kmsg.Response, error) {
	m, err := p.client.RoundTrip(ctx, &cluster.NewerRequest{Request: req, To: to, ClientID: p.client.ClientID, Transactional: true})
	if err != nil {
		return nil, err
	}
	return m.(cluster.NewerAnswer).Response, nil
}

// produce sends one request and notes each partition's answer in it.
func (p *Producer) produce(ctx context.Context, r request) error {
	req := &rawproduce.Request{Acks: -1, Timeout: p.produceTimeout()}
	if !p.Idempotent {
		req.TransactionalID = p.TransactionalID
	}
	for _, partitions := range byTopic(r.partitions) {
		t := rawproduce.RequestTopic{Topic: partitions[0].Topic.Name}
		for _, q := range partitions {
			t.Partitions = append(t.Partitions, rawproduce.RequestPartition{
				Partition: q.Index, RecordSet: protocol.RawRecordSet{Reader: bytes.NewReader(q.pending.Bytes)},
			})
		}
		req.Topics = append(req.Topics, t)
	}
	m, err := p.client.RoundTrip(ctx, req)
	if err != nil {
		return err
	}
	for _, t := range m.(*produce.Response).Topics {
		for _, a := range t.Partitions {
			r.note(t.Topic, a.Partition, answer{a.ErrorCode, a.BaseOffset, a.ErrorMessage})
		}
	}
	return nil
}

// produceByProtocol2 does so with a request that adds the partitions to the transaction.
func (p *Producer) produceByProtocol2(ctx context.Context, r request) error {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.TransactionID = cluster.TransactionalProduce, &p.TransactionalID
	req.Acks, req.TimeoutMillis = -1, p.produceTimeout()
	for _, partitions := range byTopic(r.partitions) {
		t := kmsg.NewProduceRequestTopic()
		t.Topic = partitions[0].Topic.Name
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
			r.note(t.Topic, a.Partition, answer{a.ErrorCode, a.BaseOffset, text})
		}
	}
	return nil
}

// settle waits until the coordinator has written the markers of the last transaction, if that has just ended. Until then a broker
// would hold back the first Produce of the next one, for 20 ms at a time (add.partitions.to.txn.retry.backoff.ms). Whatever else it
// answers is left to Produce.
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

// produceTimeout is how long a broker may wait for its replicas, in milliseconds.
func (p *Producer) produceTimeout() int32 {
	return int32(p.client.RequestTimeout.Milliseconds() * 3 / 4)
}

// byTopic groups partitions, in the order of their first ones.
func byTopic(partitions []*Partition) (groups [][]*Partition) {
	at := map[*Topic]int{}
	for _, q := range partitions {
		i, ok := at[q.Topic]
		if !ok {
			i = len(groups)
			at[q.Topic] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], q)
	}
	return groups
}

package producer

import (
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/endtxn"

	"kubecdc/sinks/kafka/internal/cluster"
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

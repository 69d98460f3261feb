package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
)

// Probe asks every broker that the cluster names which requests it knows: that needs no right at all, and a broker has it at
// hand. One that is down is not named any more, once its session with the controller has ended.
func (s *Sink) Probe(ctx context.Context) error {
	_, err := s.client.roundTrip(ctx, &probeAll{})
	if err != nil {
		s.client.forget()
		return newError(fmt.Sprintf("get an answer from every broker of Kafka at %v", s.cfg.Brokers), err)
	}
	return nil
}

// probeAll is one request to each broker.
type probeAll struct{ brokers []protocol.Broker }

func (r *probeAll) ApiKey() protocol.ApiKey { return protocol.ApiVersions }

func (r *probeAll) Split(c protocol.Cluster) (requests []protocol.Message, _ protocol.Merger, _ error) {
	for _, b := range c.Brokers {
		r.brokers = append(r.brokers, b)
		requests = append(requests, &probeRequest{broker: b.ID})
	}
	if len(requests) == 0 {
		return nil, nil, errors.New("no broker has said yet which brokers there are")
	}
	return requests, r, nil
}

func (r *probeAll) Merge(_ []protocol.Message, results []any) (last protocol.Message, err error) {
	for i, result := range results {
		if last, err = protocol.Result(result); err != nil {
			return nil, fmt.Errorf("broker %s: %w", &r.brokers[i], err)
		}
	}
	return last, nil
}

// probeRequest is kafka-go's ApiVersions request, to a broker of choice.
type probeRequest struct {
	_ struct{} `kafka:"min=v0,max=v2"`

	broker int32
}

const toChosenBroker protocol.OverrideTypeKey = 2

func init() {
	protocol.RegisterOverride(&probeRequest{}, &apiversions.Response{}, toChosenBroker)
}

func (r *probeRequest) ApiKey() protocol.ApiKey           { return protocol.ApiVersions }
func (r *probeRequest) TypeKey() protocol.OverrideTypeKey { return toChosenBroker }
func (r *probeRequest) Broker(c protocol.Cluster) (protocol.Broker, error) {
	return brokerByID(c, r.broker)
}

var (
	_ protocol.Splitter            = (*probeAll)(nil)
	_ protocol.BrokerMessage       = (*probeRequest)(nil)
	_ protocol.OverrideTypeMessage = (*probeRequest)(nil)
)

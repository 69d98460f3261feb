package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
)

// PingAll asks every broker that the cluster names for its API versions. That needs no right, and a broker answers it from
// memory. A broker that is down is no longer named once its session with the controller has ended.
//
// A broker closes a connection at the first request after its session (connections.max.reauth.ms, KIP-368) or after it was idle for
// long. That says nothing about the broker, so a closed connection is replaced once.
func (c *Client) PingAll(ctx context.Context) error {
	_, err := c.RoundTrip(ctx, &pingAll{})
	if err != nil {
		c.refresh()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		_, err = c.RoundTrip(ctx, &pingAll{})
	}
	return err
}

// pingAll is one request to each broker.
type pingAll struct{ brokers []protocol.Broker }

func (r *pingAll) ApiKey() protocol.ApiKey { return protocol.ApiVersions }

func (r *pingAll) Split(c protocol.Cluster) (requests []protocol.Message, _ protocol.Merger, _ error) {
	for _, b := range c.Brokers {
		r.brokers = append(r.brokers, b)
		requests = append(requests, &pingRequest{broker: b.ID})
	}
	if len(requests) == 0 {
		return nil, nil, errors.New("the cluster's brokers are not known yet")
	}
	return requests, r, nil
}

func (r *pingAll) Merge(_ []protocol.Message, results []any) (last protocol.Message, err error) {
	for i, result := range results {
		if last, err = protocol.Result(result); err != nil {
			return nil, fmt.Errorf("broker %s: %w", &r.brokers[i], err)
		}
	}
	return last, nil
}

// pingRequest is kafka-go's ApiVersions request, to one broker.
type pingRequest struct {
	_ struct{} `kafka:"min=v0,max=v2"`

	broker int32
}

// toChosenBroker tells kafka-go's two types of the request apart.
const toChosenBroker protocol.OverrideTypeKey = 2

func init() {
	protocol.RegisterOverride(&pingRequest{}, &apiversions.Response{}, toChosenBroker)
}

func (r *pingRequest) ApiKey() protocol.ApiKey           { return protocol.ApiVersions }
func (r *pingRequest) TypeKey() protocol.OverrideTypeKey { return toChosenBroker }
func (r *pingRequest) Broker(c protocol.Cluster) (protocol.Broker, error) {
	return BrokerByID(c, r.broker)
}

var (
	_ protocol.Splitter            = (*pingAll)(nil)
	_ protocol.BrokerMessage       = (*pingRequest)(nil)
	_ protocol.OverrideTypeMessage = (*pingRequest)(nil)
)

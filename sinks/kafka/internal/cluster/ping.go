package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// PingAll asks every broker that the cluster names for its API versions. That needs no right, and a broker answers it from
// memory. A broker that is down is not named any more once its session with the controller has ended.
//
// A broker closes a connection at the first request after its session (connections.max.reauth.ms, KIP-368), or after a long idle
// time. That is no fault of the broker, so a closed connection is replaced once.
func (c *Client) PingAll(ctx context.Context) error {
	_, err := c.RoundTrip(ctx, &askAll{clientID: c.ClientID})
	if errors.Is(err, errNoBrokers) {
		_, why := c.RoundTrip(ctx, &metadata.Request{}) // kafka-go answers this one from its view: with why it has none
		err = cmp.Or(why, err)
	}
	if err != nil {
		c.refresh()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) {
		_, err = c.RoundTrip(ctx, &askAll{clientID: c.ClientID})
	}
	return err
}

// LacksProtocol2 asks every broker whether it makes transactions by protocol 2 (KIP-890), and returns why one does not, or "" if
// all do. It does not wait for a slow broker if another one answers. The slow one is asked again before it gets such a request.
func (c *Client) LacksProtocol2(ctx context.Context) (why string, err error) {
	err = c.Try(ctx, "ask the brokers for their versions", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		all := &askAll{clientID: c.ClientID, any: true}
		_, err := c.RoundTrip(ctx, all)
		why = all.lacking
		return err
	})
	return why, err
}

const askWithin = 2 * time.Second

// askAll is one request to each broker.
type askAll struct {
	clientID string
	any      bool // one answer is enough
	brokers  []protocol.Broker
	lacking  string // why a broker does not make transactions by protocol 2
}

func (r *askAll) ApiKey() protocol.ApiKey { return protocol.ApiVersions }

func (r *askAll) Split(c protocol.Cluster) (requests []protocol.Message, _ protocol.Merger, _ error) {
	for _, b := range c.Brokers {
		r.brokers = append(r.brokers, b)
		requests = append(requests, &BrokerRequest{Request: apiVersions(), To: b.ID, ClientID: r.clientID})
	}
	if len(requests) == 0 {
		return nil, nil, errNoBrokers
	}
	return requests, r, nil
}

func (r *askAll) Merge(_ []protocol.Message, results []any) (last protocol.Message, failed error) {
	for i, result := range results {
		answer, err := protocol.Result(result)
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("broker %s: %w", &r.brokers[i], err))
			continue
		}
		last = answer
		if lacks := lacksProtocol2(answer.(BrokerAnswer).Response.(*kmsg.ApiVersionsResponse)); lacks != "" {
			r.lacking = fmt.Sprintf("broker %d %s", r.brokers[i].ID, lacks)
		}
	}
	if r.any && last != nil {
		failed = nil
	}
	return last, failed
}

var errNoBrokers = errors.New("the cluster's brokers are not known yet")

var _ protocol.Splitter = (*askAll)(nil)

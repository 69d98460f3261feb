package kafka

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// client sends requests. kafka-go's Transport keeps the connections and a view of the cluster.
type client struct {
	cfg       *Config
	addr      net.Addr
	transport *kafka.Transport
	api       *kafka.Client

	mu     sync.Mutex
	forgot time.Time         // when the view of the cluster was last thrown away
	stuck  map[*retrier]bool // what has been tried in vain for a while
}

const (
	// metadataTTL is long because the transport asks for every topic of the cluster; we ask anew when a
	// request tells that the view is old.
	metadataTTL = 30 * time.Second
	// idleTimeout is short because kafka-go holds a view that was thrown away until then. Probes keep connections open.
	idleTimeout = 20 * time.Second
	// forgetEvery keeps many slots from throwing away each other's fresh view.
	forgetEvery = 200 * time.Millisecond
)

func newClient(cfg *Config) (*client, error) {
	mechanism, err := cfg.SASL.mechanism()
	if err != nil {
		return nil, fmt.Errorf("prepare the SASL login: %w", err)
	}
	c := &client{cfg: cfg, addr: kafka.TCP(cfg.Brokers...), stuck: map[*retrier]bool{}}
	c.transport = &kafka.Transport{
		ClientID: cfg.ClientID, Dial: cfg.dial, SASL: mechanism,
		MetadataTTL: metadataTTL, DialTimeout: 10 * time.Second, IdleTimeout: idleTimeout,
	}
	c.api = &kafka.Client{Addr: c.addr, Transport: c.transport}
	return c, nil
}

func (c *client) close() { c.transport.CloseIdleConnections() }

// roundTrip sends one request and waits for at most the request timeout.
func (c *client) roundTrip(ctx context.Context, req protocol.Message) (protocol.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	return c.transport.RoundTrip(ctx, c.addr, req)
}

// forget throws away connections and the view of the cluster, so that the next request makes new ones.
// Requests that are under way are not disturbed.
func (c *client) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.forgot) >= forgetEvery {
		c.transport.CloseIdleConnections()
		c.forgot = time.Now()
	}
}

// leaders gives the leader of each partition of a topic, as far as the view of the cluster goes.
func (c *client) leaders(ctx context.Context, topic string) ([]int32, error) {
	m, err := c.roundTrip(ctx, &metadata.Request{TopicNames: []string{topic}})
	if err != nil {
		return nil, err
	}
	t := &m.(*metadata.Response).Topics[0]
	if t.ErrorCode == int16(kafka.UnknownTopicOrPartition) {
		return nil, c.whyUnknown(ctx, topic)
	}
	if t.ErrorCode != 0 {
		return nil, codeError(t.ErrorCode)
	}
	leaders := make([]int32, len(t.Partitions))
	for _, p := range t.Partitions {
		if int(p.PartitionIndex) < len(leaders) {
			leaders[p.PartitionIndex] = p.LeaderID
		}
	}
	return leaders, nil
}

// Package cluster sends requests to a Kafka cluster over kafka-go's connections, and repeats them until their outcome is known.
// kafka-go itself returns each error to its caller. The error code decides whether an error is retried (errors.go), by the tables
// of the protocol guide (https://kafka.apache.org/protocol#protocol_error_codes). kafka-go answers some requests from its own
// view of the cluster. If that matters, the package asks a broker (metadata.go, deleted.go).
//
// It knows nothing of the content of topics. Every request that it repeats must be idempotent.
package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/sasl"

	"kubecdc/sinks"
)

// Options are how to connect. All are required except SASL.
type Options struct {
	Brokers        []string // host:port
	ClientID       string
	Dial           func(ctx context.Context, network, address string) (net.Conn, error)
	SASL           sasl.Mechanism
	RequestTimeout time.Duration // time for one answer, after which the request is sent again
	// ReplicationFactor is for new topics. -1 is the broker's default (KIP-464).
	ReplicationFactor int
	Logger            *slog.Logger
	// gets an error that has lasted for 2 s, then every 5 s, and nil once no request is stuck
	Stuck func(error)
	Hint  func(error) string // returns what the user can do about an error, or ""
}

// Client sends requests. kafka-go's Transport holds the connections and a view of the cluster.
type Client struct {
	Options
	addr      net.Addr
	transport *kafka.Transport
	api       *kafka.Client

	mu        sync.Mutex
	refreshed time.Time          // when the view of the cluster was last dropped
	stuck     map[*Attempts]bool // operations that have been retried for long
	throttled time.Time          // when the log last said that a quota holds up requests

	connections atomic.Int64

	id    atomic.Pointer[string]           // id of the cluster, from the first connection
	moved atomic.Pointer[sinks.MovedError] // set if an address leads to another cluster
}

const (
	// metadataTTL is long, because the transport asks for every topic of the cluster. The client asks again when a request shows
	// that the view is old.
	metadataTTL = 30 * time.Second
	// idleTimeout is short, because kafka-go retains a dropped view until then. Probes keep connections open.
	idleTimeout = 20 * time.Second
	// refreshEvery prevents that many writers drop a view that another has just fetched.
	refreshEvery = 200 * time.Millisecond
)

// New returns a client. The first request connects.
func New(o Options) *Client {
	c := &Client{Options: o, addr: kafka.TCP(o.Brokers...), stuck: map[*Attempts]bool{}}
	c.transport = &kafka.Transport{
		ClientID: o.ClientID, Dial: c.dial, SASL: o.SASL,
		MetadataTTL: metadataTTL, DialTimeout: 10 * time.Second, IdleTimeout: idleTimeout,
	}
	c.api = &kafka.Client{Addr: c.addr, Transport: c.transport, Timeout: o.RequestTimeout}
	return c
}

// Close closes the connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// RoundTrip sends one request once, and waits for at most the request timeout. After a *sinks.MovedError it always returns that
// error.
func (c *Client) RoundTrip(ctx context.Context, req protocol.Message) (m protocol.Message, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.RequestTimeout)
	defer cancel()
	if c.moved.Load() == nil {
		m, err = c.transport.RoundTrip(ctx, c.addr, req)
		c.logThrottle(m)
	}
	if moved := c.moved.Load(); moved != nil {
		return nil, moved
	}
	return m, err
}

// refresh drops connections and the view of the cluster, so that the next request makes new ones. It does not disturb running
// requests.
func (c *Client) refresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.refreshed) >= refreshEvery {
		c.transport.CloseIdleConnections()
		c.refreshed = time.Now()
	}
}

// Coordinator returns the broker that coordinates a transactional id.
func (c *Client) Coordinator(ctx context.Context, transactionalID string) (broker int32, err error) {
	res, err := c.api.FindCoordinator(ctx, &kafka.FindCoordinatorRequest{
		Key: transactionalID, KeyType: kafka.CoordinatorKeyTypeTransaction})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return -1, fmt.Errorf("find the transaction coordinator: %w", err)
	}
	return int32(res.Coordinator.NodeID), nil
}

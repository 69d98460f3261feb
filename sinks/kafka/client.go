package kafka

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
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
	forgot time.Time // when the view of the cluster was last thrown away
}

const (
	// metadataTTL is long because the transport asks for every topic of the cluster; we ask anew when a
	// request tells that the view is old.
	metadataTTL = 30 * time.Second
	// forgetEvery keeps many slots from throwing away each other's fresh view.
	forgetEvery = 200 * time.Millisecond
	stuckAfter  = 5 * time.Second // a warning then, and again as often
	maxBackoff  = time.Second
)

func newClient(cfg *Config) (*client, error) {
	mechanism, err := cfg.SASL.mechanism()
	if err != nil {
		return nil, fmt.Errorf("prepare the SASL login: %w", err)
	}
	c := &client{cfg: cfg, addr: kafka.TCP(cfg.Brokers...)}
	c.transport = &kafka.Transport{
		ClientID: cfg.ClientID, TLS: cfg.TLS, SASL: mechanism,
		MetadataTTL: metadataTTL, DialTimeout: 10 * time.Second, IdleTimeout: 5 * time.Minute,
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

// retrier spaces the attempts at one thing, and says in the log when they go on for long.
type retrier struct {
	*client
	op     string
	delays *backoff.ExponentialBackOff
	since  time.Time
	said   time.Time
	tries  int
}

func (c *client) retrier(op string) *retrier {
	return &retrier{client: c, op: op, since: time.Now()}
}

// pause judges an error. When another attempt makes sense it waits for its turn and returns nil.
func (r *retrier) pause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", r.op, context.Cause(ctx))
	}
	switch judge(err) {
	case retry:
	case relearn:
		r.forget()
	default:
		return newError(r.op, err)
	}
	r.tries++
	r.report(err)
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s: %w (last error: %v)", r.op, context.Cause(ctx), err)
	case <-time.After(r.nextDelay()):
		return nil
	}
}

// nextDelay begins at 2 ms, since the usual cause is a transaction that is just being ended.
func (r *retrier) nextDelay() time.Duration {
	if r.delays == nil {
		r.delays = backoff.NewExponentialBackOff()
		r.delays.InitialInterval, r.delays.MaxInterval, r.delays.Multiplier = 2*time.Millisecond, maxBackoff, 2
	}
	return r.delays.NextBackOff()
}

func (r *retrier) report(err error) {
	now := time.Now()
	if now.Sub(r.since) < stuckAfter || now.Sub(r.said) < stuckAfter {
		return
	}
	r.said = now
	r.cfg.Logger.Warn("Kafka does not accept it yet; still trying", "op", r.op, "brokers", r.cfg.Brokers,
		"for", now.Sub(r.since).Round(time.Second), "attempts", r.tries, "error", err, "hint", hintFor(err))
}

// try repeats f until it succeeds, fails for good, or ctx ends.
func (c *client) try(ctx context.Context, op string, f func(context.Context) error) error {
	r := c.retrier(op)
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		if err := r.pause(ctx, err); err != nil {
			return err
		}
	}
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"kubecdc/internal/wait"
)

const (
	stuckAfter  = 2 * time.Second // from then on a warning is logged
	reportEvery = 5 * time.Second // as often
	maxBackoff  = time.Second
	// patience is for errors that either pass soon or stay. A topic that is being created is not known to every broker at
	// once; one that is missing for longer was deleted. An unknown error comes from a broker that is stopping, or has a fault.
	patience = 3 * time.Second
)

// Attempts spaces the attempts at one operation, and logs that they go on for long.
type Attempts struct {
	Op     string
	Since  time.Time // when the first attempt began
	Failed int
	client *Client
	delays *backoff.ExponentialBackOff
	logged time.Time
	other  bool // it is not Kafka that is asked
}

// Attempts begins the attempts at an operation. Done must follow.
func (c *Client) Attempts(op string) *Attempts {
	return &Attempts{client: c, Op: op, Since: time.Now()}
}

// AttemptsElsewhere begins attempts at an operation of another server than Kafka, whose errors name it and say what to do. Next
// spaces them.
func (c *Client) AttemptsElsewhere(op string) *Attempts {
	return &Attempts{client: c, Op: op, Since: time.Now(), other: true}
}

// Try repeats f until it succeeds, fails for good, or ctx ends.
func (c *Client) Try(ctx context.Context, op string, f func(context.Context) error) error {
	a := c.Attempts(op)
	defer a.Done()
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		if err := a.Pause(ctx, err); err != nil {
			return err
		}
	}
}

// Pause waits for the next attempt and returns nil, where the error is one that is retried. Otherwise it returns the error,
// with what was tried and what the user can do.
func (a *Attempts) Pause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", a.Op, context.Cause(ctx))
	}
	if moved := a.client.moved.Load(); moved != nil && !a.other {
		err = moved // what kafka-go sends by itself fails in ways of its own
	}
	v := Judge(err)
	switch {
	case v == Retry:
	case v == Refresh && !(mayStay(err) && time.Since(a.Since) > patience):
		a.client.refresh()
	default:
		if connectionRefused(err) {
			a.client.refresh() // the view of the cluster would repeat this error for up to metadataTTL
		}
		return a.client.NewError(a.Op, err)
	}
	return a.Next(ctx, err)
}

// mayStay are the errors that patience is for.
func mayStay(err error) bool {
	return NoTopic(err) || errors.Is(err, protocol.ErrNoPartition) || errors.Is(err, kafka.Unknown)
}

// Next waits for the next attempt, after whatever error.
func (a *Attempts) Next(ctx context.Context, err error) error {
	a.Failed++
	a.report(err)
	if wait.For(ctx, a.nextDelay()) != nil {
		return fmt.Errorf("%s: %w (last error: %v)", a.Op, context.Cause(ctx), err)
	}
	return nil
}

// nextDelay begins at 2 ms, since the usual cause is a transaction that is just being completed.
func (a *Attempts) nextDelay() time.Duration {
	if a.delays == nil {
		a.delays = backoff.NewExponentialBackOff()
		a.delays.InitialInterval, a.delays.MaxInterval, a.delays.Multiplier = 2*time.Millisecond, maxBackoff, 2
	}
	return a.delays.NextBackOff()
}

func (a *Attempts) report(err error) {
	now := time.Now()
	if now.Sub(a.Since) < stuckAfter || now.Sub(a.logged) < reportEvery {
		return
	}
	a.logged = now
	c := a.client
	if a.other {
		c.Logger.Warn("cannot "+a.Op+"; retrying", "for", now.Sub(a.Since).Round(time.Second), "attempts", a.Failed, "error", err)
		c.noteStuck(a, fmt.Errorf("%s: %w", a.Op, err))
		return
	}
	c.Logger.Warn("a request to Kafka does not succeed; retrying", "op", a.Op, "brokers", c.Brokers,
		"for", now.Sub(a.Since).Round(time.Second), "attempts", a.Failed, "error", err, "hint", c.Hint(err))
	c.noteStuck(a, c.NewError(a.Op, err))
}

// Done ends the attempts, with whatever outcome.
func (a *Attempts) Done() {
	if !a.logged.IsZero() {
		a.client.noteStuck(a, nil)
	}
}

// noteStuck keeps the set of operations that are stuck: Stuck(nil) is called when the last of them ends.
func (c *Client) noteStuck(a *Attempts, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.stuck[a] = true
		c.Stuck(err)
		return
	}
	if delete(c.stuck, a); len(c.stuck) == 0 {
		c.Stuck(nil)
	}
}

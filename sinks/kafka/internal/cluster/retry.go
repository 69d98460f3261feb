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
	stuckAfter  = 2 * time.Second // after that a warning is logged
	reportEvery = 5 * time.Second // interval of later warnings
	maxBackoff  = time.Second
	// patience is for errors that either pass soon or persist. A new topic is not known to every broker at once. A topic that is
	// missing for longer was deleted. An unknown error comes from a broker that is stopping, or that has a fault. It counts from
	// the first such error, since a loaded broker may take long for that. It ends after some attempts, since a process may stand
	// still.
	patience      = 3 * time.Second
	leastAttempts = 8
)

// Attempts paces the attempts at one operation, and logs if they take long.
type Attempts struct {
	Op     string
	Since  time.Time // when the first attempt began
	Failed int
	client *Client
	delays *backoff.ExponentialBackOff
	logged time.Time
	other  bool // the server is not Kafka

	missed   time.Time // when the first error came that may persist
	attempts int       // since then
}

// Attempts begins the attempts at an operation. The caller must call Done.
func (c *Client) Attempts(op string) *Attempts {
	return &Attempts{client: c, Op: op, Since: time.Now()}
}

// AttemptsElsewhere begins the attempts at an operation on a server that is not Kafka. The caller calls Next between attempts,
// and must call Done. It decides itself which errors end the attempts, since Pause only knows Kafka's. The errors that it
// passes must name the server and say what to do.
func (c *Client) AttemptsElsewhere(op string) *Attempts {
	return &Attempts{client: c, Op: op, Since: time.Now(), other: true}
}

// Try repeats f until it succeeds, returns a final error, or ctx ends.
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

// Pause waits for the next attempt and returns nil if the error is one to retry. Otherwise it returns the error with the
// operation and a hint.
func (a *Attempts) Pause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", a.Op, context.Cause(ctx))
	}
	if moved := a.client.moved.Load(); moved != nil && !a.other {
		err = moved // requests that kafka-go itself sends fail with other errors
	}
	v := Judge(err)
	switch {
	case v == Retry:
	case v == Refresh && !a.persists(err):
		a.client.refresh()
	default:
		if connectionRefused(err) {
			a.client.refresh() // the view of the cluster would repeat this error for up to metadataTTL
		}
		return a.client.NewError(a.Op, err)
	}
	return a.Next(ctx, err)
}

// persists reports whether an error has lasted for longer than patience, if patience applies to it.
func (a *Attempts) persists(err error) bool {
	if !NoTopic(err) && !errors.Is(err, protocol.ErrNoPartition) && !errors.Is(err, kafka.Unknown) {
		return false
	}
	if a.missed.IsZero() {
		a.missed = time.Now()
	}
	a.attempts++
	return time.Since(a.missed) > patience && a.attempts > leastAttempts
}

// Next waits for the next attempt, after any error.
func (a *Attempts) Next(ctx context.Context, err error) error {
	a.Failed++
	a.report(err)
	if wait.For(ctx, a.nextDelay()) != nil {
		return fmt.Errorf("%s: %w (last error: %v)", a.Op, context.Cause(ctx), err)
	}
	return nil
}

// nextDelay begins at 2 ms, since the usual cause is a transaction that is just ending.
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
		c.setStuck(a, fmt.Errorf("%s: %w", a.Op, err))
		return
	}
	c.Logger.Warn("a request to Kafka does not succeed; retrying", "op", a.Op, "brokers", c.Brokers,
		"for", now.Sub(a.Since).Round(time.Second), "attempts", a.Failed, "error", err, "hint", c.Hint(err))
	c.setStuck(a, c.NewError(a.Op, err))
}

// Done ends the attempts, whatever their outcome.
func (a *Attempts) Done() {
	if !a.logged.IsZero() {
		a.client.setStuck(a, nil)
	}
}

// setStuck maintains the set of stuck operations. When the last of them ends, it calls Stuck(nil).
func (c *Client) setStuck(a *Attempts, err error) {
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

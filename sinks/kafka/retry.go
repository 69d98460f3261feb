package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	stuckAfter = 2 * time.Second // a warning then
	sayEvery   = 5 * time.Second // and again as often
	maxBackoff = time.Second
	// topicPatience: a topic that is just being made is not known to every broker at once. One that is missing for
	// longer was deleted: the caller is told, and the log opened anew sees to it.
	topicPatience = 3 * time.Second
)

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

// try repeats f until it succeeds, fails for good, or ctx ends.
func (c *client) try(ctx context.Context, op string, f func(context.Context) error) error {
	r := c.retrier(op)
	defer r.done()
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

// pause judges an error. When another attempt makes sense it waits for its turn and returns nil.
func (r *retrier) pause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", r.op, context.Cause(ctx))
	}
	v := judge(err)
	switch {
	case v == retry:
	case v == relearn && !(noTopic(err) && time.Since(r.since) > topicPatience):
		r.forget()
	default:
		if notLetIn(err) {
			r.forget() // the view of the cluster would repeat this error for up to metadataTTL
		}
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
	if now.Sub(r.since) < stuckAfter || now.Sub(r.said) < sayEvery {
		return
	}
	r.said = now
	r.cfg.Logger.Warn("Kafka does not accept it yet; still trying", "op", r.op, "brokers", r.cfg.Brokers,
		"for", now.Sub(r.since).Round(time.Second), "attempts", r.tries, "error", err, "hint", hintFor(err))
	r.noteStuck(r, newError(r.op, err))
}

// done ends the attempts, whatever came of them.
func (r *retrier) done() {
	if !r.said.IsZero() {
		r.noteStuck(r, nil)
	}
}

// noteStuck keeps count of what is stuck, so that of many slots the last one ends it.
func (c *client) noteStuck(r *retrier, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.stuck[r] = true
		c.cfg.Observer.SinkStuck(err)
		return
	}
	if delete(c.stuck, r); len(c.stuck) == 0 {
		c.cfg.Observer.SinkStuck(nil)
	}
}

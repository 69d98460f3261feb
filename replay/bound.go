package replay

import (
	"context"
	"errors"
	"time"

	"kubecdc/change/moment"
	"kubecdc/internal/fault"
	"kubecdc/sinks"
)

// Request is a user's request for a replay.
type Request struct {
	Cluster, Log string // the log's cluster, and the log's identity or place
	From, To     Asked
	Filter       Filter
	Incomplete   bool // replay what the log still has, even if it lacks something
	// Checkpoint finds a checkpoint in the store.
	Checkpoint func(context.Context, moment.Moment) (*Checkpoint, error)
}

// Asked is a bound as the user gave it.
type Asked struct {
	Flag, Text string
	moment.Moment
}

// Plan returns the bounds of a replay, after it has checked that the log has all between them. It returns a fault.Usage for a
// request that makes no sense, and a NotRetainedError for a log that lacks something. The caller then calls Count.
func (q *Request) Plan(ctx context.Context, log sinks.Reader) (*Plan, error) {
	p := &Plan{ID: NewID(time.Now()), Cluster: q.Cluster, Log: q.Log, Filter: q.Filter}
	var err error
	if len(p.Filter.Resources) == 0 {
		if p.Filter.Resources, err = log.Resources(ctx); err != nil {
			return nil, err
		}
	}
	end, err := log.CutAt(ctx, time.Time{})
	if err != nil {
		return nil, err
	}
	if p.To, err = q.bound(ctx, log, p, &q.To, end); err != nil {
		return nil, err
	}
	if p.From, err = q.bound(ctx, log, p, &q.From, end); err != nil {
		return nil, err
	}
	if !p.From.Time.IsZero() && !p.To.Time.IsZero() && p.From.Time.After(p.To.Time) {
		return nil, fault.Usagef("%s %s is after %s %s", q.From.Flag, q.From.Text, q.To.Flag, q.To.Text)
	}
	return p, p.checkRetained(ctx, log, q.Incomplete)
}

func (q *Request) bound(ctx context.Context, log sinks.Reader, p *Plan, a *Asked, end sinks.Cut) (b Bound, err error) {
	b.Text = a.Text
	switch {
	case a.Start:
		b.Clock = "start of the log"
	case a.Batch != nil:
		err = q.checkpointBound(ctx, a, &b)
	case !a.Time.IsZero():
		err = q.timeBound(ctx, log, p, a, &b)
	default:
		b.Clock, b.Cut = "end of the log", &end
		if a == &q.From {
			b.Time = time.Now()
		}
	}
	return b, err
}

func (q *Request) checkpointBound(ctx context.Context, a *Asked, b *Bound) error {
	c, err := q.Checkpoint(ctx, a.Moment)
	if err != nil {
		return err
	}
	cut := c.Cut()
	b.Clock, b.Time, b.Cut = "checkpoint", c.Time, &cut
	return nil
}

func (q *Request) timeBound(ctx context.Context, log sinks.Reader, p *Plan, a *Asked, b *Bound) error {
	b.Clock, b.Time = "logged", a.Time
	cut, err := log.CutAt(ctx, a.Time)
	switch {
	case errors.Is(err, sinks.ErrNotRetained) && a == &q.From && q.Incomplete:
		p.Incomplete = append(p.Incomplete, err.Error())
		return nil
	case errors.Is(err, sinks.ErrNotRetained):
		return &NotRetainedError{Missing: []string{err.Error()}}
	}
	b.Cut = &cut
	return err
}

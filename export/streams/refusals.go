package streams

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"kubecdc/change"
	"kubecdc/sinks"
)

// A sink may refuse the records of one resource, and accept all others. For example, its topic may not be created or written to.
// The refusal ends the session, because the outcome of the batch is unknown. The following sessions do not read the resource's
// streams. Their positions remain, and they resume once the sink would accept their records again. The changes during the refusal
// are recovered as after any stop.

// Refusals are a slot's refusals, by their place in the log. A refusal that has ended remains here, so that its backoff continues
// if the sink refuses the same resource again.
type Refusals map[string]*refusal

type refusal struct {
	sinks.Refusal
	since  time.Time
	ended  time.Time // zero if it has not ended
	delays *backoff.ExponentialBackOff
	next   time.Time // the time of the next probe
}

// Record records what the sink refuses, and reports whether anything is new. If so, the next session, which leaves these
// streams out, can start at once.
func (rs Refusals) Record(err error, log *slog.Logger) (isNew bool) {
	refused, isRefusal := errors.AsType[*sinks.RefusedError](err)
	if !isRefusal {
		return false
	}
	for _, r := range refused.Refusals {
		if rs.add(r) {
			isNew = true
			log.Error("the sink refuses the records of a resource: its streams are paused, the others continue",
				"place", r.Place, "error", r.Err)
		}
	}
	return isNew
}

func (rs Refusals) add(refused sinks.Refusal) (isNew bool) {
	r := rs[refused.Place]
	if r != nil && r.ended.IsZero() {
		return false
	}
	if r == nil {
		delays := backoff.NewExponentialBackOff()
		delays.InitialInterval, delays.MaxInterval = time.Second, 30*time.Second
		r = &refusal{delays: delays}
		rs[refused.Place] = r
	} else if time.Since(r.ended) > time.Minute {
		r.delays.Reset()
	}
	r.Refusal, r.since, r.ended = refused, time.Now(), time.Time{}
	r.postpone()
	return true
}

func (r *refusal) postpone() { r.next = time.Now().Add(r.delays.NextBackOff()) }

// refusalOf returns the refusal of a resource's records, or nil if they are accepted.
func (rs Refusals) refusalOf(resource change.Resource) *refusal {
	for _, r := range rs {
		if r.ended.IsZero() && r.Refuses(resource) {
			return r
		}
	}
	return nil
}

// Refuses reports whether the records of a stream are refused.
func (rs Refusals) Refuses(id change.StreamID) bool {
	return rs.refusalOf(change.ResourceOf(id)) != nil
}

// due returns a channel that fires when the next probe is due. It returns nil if nothing is refused.
func (rs Refusals) due() <-chan time.Time {
	var first time.Time
	for _, r := range rs {
		if r.ended.IsZero() && (first.IsZero() || r.next.Before(first)) {
			first = r.next
		}
	}
	if first.IsZero() {
		return nil
	}
	return time.After(time.Until(first))
}

// refuse leaves a stream out of the session, and writes a stream-error record.
func (st *Streams) refuse(ctx context.Context, id change.StreamID, r *refusal) error {
	st.all[id] = refusedBySink{}
	st.leaveOut(id, change.StateRefused, r.Err)
	p, _, err := st.memory.Position(ctx, id)
	if err != nil {
		return err
	}
	return st.send(ctx, change.StreamErrorControl(id, p.ResourceVersion, r.Err.Error(), r.since), nil)
}

func (st *Streams) refusedBy(r *refusal) (ids []change.StreamID) {
	for id, s := range st.all {
		if _, refused := s.(refusedBySink); refused && r.Refuses(change.ResourceOf(id)) {
			ids = append(ids, id)
		}
	}
	return ids
}

const refusalProbeTimeout = 10 * time.Second

// probeRefusals probes the refusals that are due, and resumes the streams whose records the sink would accept.
func (st *Streams) probeRefusals(ctx context.Context) error {
	resumed := false
	for _, r := range st.refusals {
		if !r.ended.IsZero() || time.Now().Before(r.next) {
			continue
		}
		probe, cancel := context.WithTimeout(ctx, refusalProbeTimeout)
		err := r.Again(probe)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			st.stillRefused(r, err)
		default:
			resumed = true
			if err := st.endRefusal(ctx, r); err != nil {
				return err
			}
		}
	}
	if !resumed {
		return nil
	}
	return st.applyAgain(ctx)
}

func (st *Streams) stillRefused(r *refusal, err error) {
	r.postpone()
	if r.Err.Error() != err.Error() {
		st.slot.Logger.Warn("the sink still refuses the records of a resource", "place", r.Place, "error", err)
	}
	r.Err = err
	for _, id := range st.refusedBy(r) {
		st.slot.Parts.State.StreamState(id, change.StateRefused, err)
	}
}

func (st *Streams) endRefusal(ctx context.Context, r *refusal) error {
	r.ended = time.Now()
	st.slot.Logger.Info("the sink accepts the records of a resource again: its streams resume", "place", r.Place,
		"after", r.ended.Sub(r.since).Round(time.Second).String())
	for _, id := range st.refusedBy(r) {
		p, stored, err := st.memory.Position(ctx, id)
		if err != nil {
			return err
		}
		c := change.StreamRecoveredControl(id, p.ResourceVersion, "the sink accepts its records again", r.since)
		if err := st.send(ctx, c, nil); err != nil {
			return err
		}
		st.reconsider(id, p, stored)
	}
	return nil
}

package export

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/source/reflector"
)

// A sink may refuse the records of one resource (its topic may not be made or written to) and take all others. That ends the
// session, since nobody knows what became of the batch. The sessions that follow do not read the streams of the resource:
// they stay where the log has them, and go on from there once the sink would take their records again. What happened
// meanwhile is recovered as after any stop.

// refusals are those of a slot, by their place in the log. A refusal that is over is kept, since its delay goes on the
// next time.
type refusals map[string]*refusal

type refusal struct {
	sinks.Refusal
	since  time.Time
	over   time.Time // zero while it lasts
	delays *backoff.ExponentialBackOff
	next   time.Time // when the sink is asked again
}

// noteRefusals notes what the sink refuses, and reports whether another session makes sense at once: without these streams.
func (s *slot) noteRefusals(err error) (news bool) {
	var refused *sinks.RefusedError
	if !errors.As(err, &refused) {
		return false
	}
	if s.refusals == nil {
		s.refusals = refusals{}
	}
	for _, r := range refused.Refusals {
		if s.refusals.add(r) {
			news = true
			s.log.Error("the sink does not take the records of a resource: its streams wait, the others go on", "place", r.Place, "error", r.Err)
		}
	}
	return news
}

// add notes a refusal, unless it is known.
func (all refusals) add(r sinks.Refusal) (news bool) {
	known := all[r.Place]
	if known != nil && known.over.IsZero() {
		return false
	}
	if known == nil {
		delays := backoff.NewExponentialBackOff()
		delays.InitialInterval, delays.MaxInterval = time.Second, 30*time.Second
		known = &refusal{delays: delays}
		all[r.Place] = known
	} else if time.Since(known.over) > time.Minute {
		known.delays.Reset()
	}
	known.Refusal, known.since, known.over = r, time.Now(), time.Time{}
	known.postpone()
	return true
}

func (w *refusal) postpone() { w.next = time.Now().Add(w.delays.NextBackOff()) }

// of gives the refusal of a resource's records; nil where they are taken.
func (all refusals) of(r change.Resource) *refusal {
	for _, one := range all {
		if one.over.IsZero() && one.Of(r) {
			return one
		}
	}
	return nil
}

// due fires when the sink is to be asked again; never, if nothing is refused.
func (all refusals) due() <-chan time.Time {
	var first time.Time
	for _, one := range all {
		if one.over.IsZero() && (first.IsZero() || one.next.Before(first)) {
			first = one.next
		}
	}
	if first.IsZero() {
		return nil
	}
	return time.After(time.Until(first))
}

// leaveOut leaves a stream out, and says so in the log, once a session.
func (x *streams) leaveOut(ctx context.Context, s *change.Stream, w *refusal) error {
	id := s.ID()
	if _, told := x.refused[id]; told {
		return nil
	}
	x.refused[id] = s.Resource
	x.slot.parts.Observer.StreamAdded(id)
	x.slot.parts.Observer.StreamState(id, reflector.StateRefused, "", w.Err)
	return x.tell(ctx, id, change.ControlStreamError, w.Err.Error(), w.since)
}

func (x *streams) tell(ctx context.Context, id change.StreamID, kind, cause string, since time.Time) error {
	p, _, err := x.reads.Position(ctx, id)
	if err != nil {
		return err
	}
	return x.queue.Send(ctx, reflector.Item{Stream: id, Control: &change.Control{Type: kind, Stream: id,
		ResourceVersion: p.ResourceVersion, Cause: cause, SinceMs: since.UnixMilli()}})
}

// askPatience bounds one question to the sink.
const askPatience = 10 * time.Second

// askAgain asks the sink about what it has refused for long enough, and starts the streams that it would take.
func (x *streams) askAgain(ctx context.Context) error {
	news := false
	for _, w := range x.slot.refusals {
		if !w.over.IsZero() || time.Now().Before(w.next) {
			continue
		}
		try, cancel := context.WithTimeout(ctx, askPatience)
		err := w.Again(try)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			x.stillRefused(w, err)
		default:
			news = true
			if err := x.endRefusal(ctx, w); err != nil {
				return err
			}
		}
	}
	if !news || x.newest == nil {
		return nil
	}
	return x.apply(ctx, *x.newest)
}

func (x *streams) stillRefused(w *refusal, err error) {
	w.postpone()
	if w.Err.Error() != err.Error() {
		x.slot.log.Warn("the sink still does not take the records of a resource", "place", w.Place, "error", err)
	}
	w.Err = err
	for id, r := range x.refused {
		if w.Of(r) {
			x.slot.parts.Observer.StreamState(id, reflector.StateRefused, "", err)
		}
	}
}

// endRefusal ends a refusal.
func (x *streams) endRefusal(ctx context.Context, w *refusal) error {
	w.over = time.Now()
	x.slot.log.Info("the sink takes the records of a resource again: its streams go on", "place", w.Place,
		"after", w.over.Sub(w.since).Round(time.Second).String())
	for id, r := range x.refused {
		if !w.Of(r) {
			continue
		}
		if err := x.tell(ctx, id, change.ControlStreamRecovered, "the sink takes its records again", w.since); err != nil {
			return err
		}
		delete(x.refused, id)
	}
	return nil
}

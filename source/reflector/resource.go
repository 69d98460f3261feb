package reflector

import (
	"context"
	"errors"
	"time"

	"kubecdc/change"
)

// This file says what a stream does when the API server serves its resource in another way, or not at all any more.

var errResourceChanged = errors.New("the API server serves the resource in another way now")

// SetResource tells what discovery says of the resource now: another version to read it by, or nil when the API
// server does not serve it any more.
func (s *Reflector) SetResource(r *change.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.want == r || s.want != nil && r != nil && *s.want == *r {
		return
	}
	s.want = r
	if s.interrupt != nil {
		s.interrupt(errResourceChanged)
	}
}

// adopt makes the stream read what discovery says: under another version, or not at all.
func (s *Reflector) adopt(ctx context.Context, want *change.Resource) error {
	if s.state.name() == StateLoading {
		return nil
	}
	switch {
	case want == nil && s.state.name() != StateAbsent:
		return s.depart(ctx)
	case want != nil && s.state.name() == StateAbsent:
		s.stream = s.stream.As(*want)
		s.state = s.enter(s.list(nil), "the resource is served again")
	case want != nil && s.stream.Resource != *want:
		s.log.Info("reading another version", "from", s.stream.Resource.APIVersion(), "to", want.APIVersion())
		s.stream = s.stream.As(*want)
	}
	if s.ended != nil && want != nil {
		return s.resume(ctx)
	}
	return nil
}

// resume says that a stream that was deselected goes on.
func (s *Reflector) resume(ctx context.Context) error {
	at := *s.ended
	at.Ended = ""
	if err := s.sendEnd(ctx, change.Control{Type: change.ControlStreamResume, Cause: "it is selected again"}, at); err != nil {
		return err
	}
	s.ended = nil
	return nil
}

// depart ends the log of a resource that was removed from the API: its objects went with it. After a crash in the middle
// the next owner finds the rest of the objects in the inventory, and departs from those.
func (s *Reflector) depart(ctx context.Context) error {
	s.held = ""
	s.known.StartPass()
	for _, key := range s.known.Unseen() {
		if err := s.sendDelete(ctx, key, ""); err != nil {
			return err
		}
	}
	const cause = "the resource was removed from the API"
	end := change.Position{Stream: s.ID(), Time: time.Now(), Ended: change.EndedRemoved}
	if err := s.sendEnd(ctx, change.Control{Type: change.ControlStreamEnd, Cause: cause}, end); err != nil {
		return err
	}
	s.position, s.cursor, s.ended, s.refusal = "", "", nil, nil
	s.state = s.enter(&absent{s}, cause)
	s.log.Info("the resource was removed from the API; its objects are recorded as deleted")
	return nil
}

// absent waits until the API server serves the resource again (adopt).
type absent struct{ *Reflector }

func (s *absent) name() State { return StateAbsent }

func (s *absent) step(ctx context.Context) (state, error) {
	<-ctx.Done()
	return s, nil
}

// sendEnd hands on the record of a stream's end, or of its return, with the position that says the same.
func (s *Reflector) sendEnd(ctx context.Context, c change.Control, at change.Position) error {
	c.Stream, c.ResourceVersion = s.ID(), at.ResourceVersion
	return s.emit(ctx, Item{Control: &c, Position: &at}, stays)
}

// resourceChanged is closed when SetResource interrupts a pause.
func (s *Reflector) resourceChanged() <-chan struct{} {
	ctx, cancel := context.WithCancelCause(context.Background())
	s.mu.Lock()
	s.interrupt = cancel
	s.mu.Unlock()
	return ctx.Done()
}

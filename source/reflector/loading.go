package reflector

import (
	"context"
	"fmt"

	"kubecdc/change"
	"kubecdc/source/known"
)

// loading reads where the last owner stopped.
type loading struct{ *Reflector }

func (s *loading) name() State { return StateLoading }

func (s *loading) step(ctx context.Context) (state, error) {
	p, ok, err := s.inventory.Position(ctx, s.ID())
	if err != nil {
		return s, fmt.Errorf("load the position of %s: %w", s.ID(), err)
	}
	x := known.New()
	err = s.inventory.Objects(ctx, s.ID(), func(key, uid string, version change.ResourceVersion) error {
		x.Put(key, uid, version)
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("load the inventory of %s: %w", s.ID(), err)
	}
	s.known = x
	if p.Ended != "" {
		s.ended = &p
	}
	if p.ResourceVersion == change.UnknownVersion {
		return s.enter(s.list(s.gapFrom(change.UnknownVersion)), "relist: the log does not tell any more how far it is complete"), nil
	}
	version := p.ResourceVersion
	s.position, s.cursor = version, version
	if !ok || version == "" {
		return s.enter(s.list(nil), ReasonFirstSnapshot), nil
	}
	s.log.Info("resuming", "position", version, "objects", x.Len())
	return s.enter(s.verify(s.watch(nil)), "resume at resourceVersion "+string(version)), nil
}

package reflector

import (
	"context"
	"fmt"

	"kubecdc/change"
	"kubecdc/source/known"
)

// load reads where the last owner stopped.
func (s *Reflector) load(ctx context.Context) (State, error) {
	p, ok, err := s.inventory.Position(ctx, s.ID())
	if err != nil {
		return s.state, fmt.Errorf("load the position of %s: %w", s.ID(), err)
	}
	x := known.New()
	err = s.inventory.Objects(ctx, s.ID(), func(key, uid, version string) error {
		x.Put(key, uid, version)
		return nil
	})
	if err != nil {
		return s.state, fmt.Errorf("load the inventory of %s: %w", s.ID(), err)
	}
	s.known = x
	if p.Ended != "" {
		s.ended = &p
	}
	if p.ResourceVersion == change.UnknownVersion {
		s.gap = &change.Gap{ID: change.GapID(s.ID(), change.UnknownVersion), From: change.UnknownVersion}
		return s.enter(StateListing, "relist: the log does not tell any more how far it is complete"), nil
	}
	version := p.ResourceVersion
	s.position, s.cursor = version, version
	if !ok || version == "" {
		return s.enter(StateListing, "first snapshot"), nil
	}
	s.log.Info("resuming", "position", version, "objects", x.Len())
	return s.enter(StateVerifying, "resume at resourceVersion "+version), nil
}

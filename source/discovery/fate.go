package discovery

import (
	"context"
	"fmt"
	"slices"

	"kubecdc/change"
)

// Fate is what happened to a resource that is not selected any more.
type Fate int

const (
	FateUnsure     Fate = iota // not known yet: the error says why
	FateRemoved                // its CRD was deleted, and its objects with it
	FateDeselected             // its objects exist, and the settings do not select it
)

// Fate returns what happened to the resource of a stream that is not in the selection.
func (s *Selection) Fate(ctx context.Context, stream *change.Stream) (Fate, error) {
	r := stream.Resource
	r.Namespaced = stream.Namespace != "" // which the id of a stream does not have
	id := r.ID()
	switch {
	case s.doubts[id] != nil:
		return FateUnsure, s.doubts[id]
	case s.served.has(id):
		return FateDeselected, nil
	case s.Unsure[r.Group]:
		return FateUnsure, &UnsureError{Resource: id, Err: fmt.Errorf("the API group %s can't be read", r.Group)}
	}
	found, err := s.discovery.registration(ctx, r)
	switch {
	case found == removed:
		return FateRemoved, nil
	case (found == registered || found == outlived) && !s.MayHave(r):
		return FateDeselected, nil
	case found == registered:
		err = errNotShown(id)
	}
	return FateUnsure, err
}

// Doubt returns why a resource that discovery does not show is still in the selection, or nil if discovery shows it.
func (s *Selection) Doubt(r change.Resource) error { return s.doubts[r.ID()] }

// MayHave reports whether the patterns would select the resource if it were served.
func (s *Selection) MayHave(r change.Resource) bool { return Selects(s.patterns, r.ID()) }

// has reports whether any version of the resource is served.
func (s Served) has(id string) bool {
	return slices.ContainsFunc(s.all, func(r change.Resource) bool { return r.ID() == id })
}

package recovery

import (
	"cmp"
	"context"
	"slices"

	"kubecdc/change"
	"kubecdc/source/apiclient"
)

// Objects of a leased resource, such as Events, expire in groups, in the order in which they were last written. Objects that were
// written one after another share a lease (kube-apiserver's lease manager). So that order shows where each object probably ended.
// One read shows whether it still existed just before. The newest revision comes first: when all of its deletions are found, no
// older one can be there, and nothing more has to be read.

// severalExpire is how many deletions at a revision are taken for the end of a lease.
const severalExpire = 8

// findExpiries finds the incarnations that ended with the lease of many objects. It returns the other ones.
func (s *search) findExpiries(ctx context.Context, ended []*incarnation) (others []*incarnation, err error) {
	if !s.Kind.expires() || s.sizes == nil {
		return ended, nil
	}
	var logged []*incarnation
	for _, l := range ended {
		if l.logged {
			logged = append(logged, l)
		} else {
			others = append(others, l)
		}
	}
	slices.SortFunc(logged, func(x, y *incarnation) int { return cmp.Compare(x.version, y.version) })
	for _, r := range slices.Backward(s.sizes.openDeletions(s.oldest.Load()+1, s.To)) {
		n := int(s.sizes.openAt(r))
		if n < severalExpire {
			continue
		}
		rest := max(0, len(logged)-n)
		if err := s.boundEnds(ctx, logged[rest:], r-1); err != nil {
			return nil, err
		}
		if err := s.each(ctx, logged[rest:], s.findDeletion); err != nil {
			return nil, err
		}
		logged = logged[:rest]
	}
	return append(others, logged...), nil
}

// boundEnds finds out which of the incarnations existed at the revision, by a list of names or by a read of each.
func (s *search) boundEnds(ctx context.Context, all []*incarnation, revision uint64) (err error) {
	if costs := s.meter.now(); float64(len(all))*costs.read > costs.listCost(s.Listed, false) {
		err = s.boundByNames(ctx, all, revision)
	} else {
		err = s.each(ctx, all, func(ctx context.Context, l *incarnation) error {
			o, exists, err := s.history.Object(ctx, l.key, revision)
			if err == nil {
				l.boundEnd(revision, exists && o.UID == l.uid, o.Version)
			}
			return err
		})
	}
	if IsLost(err) {
		return s.lose(ctx, revision, err)
	}
	return err
}

func (s *search) boundByNames(ctx context.Context, all []*incarnation, revision uint64) error {
	existed := make(map[identity]change.ResourceVersion, len(all))
	for _, l := range all {
		existed[identity{l.key, l.uid}] = ""
	}
	err := s.history.Names(ctx, "", revision, func(o apiclient.Object) error {
		id := identity{o.Key(), o.UID}
		if _, ended := existed[id]; ended {
			existed[id] = o.Version
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, l := range all {
		version := existed[identity{l.key, l.uid}]
		l.boundEnd(revision, version != "", version)
	}
	return nil
}

// boundEnd records whether an incarnation that the log has existed at a revision, and at which version.
func (l *incarnation) boundEnd(revision uint64, existed bool, version change.ResourceVersion) {
	switch {
	case !existed:
		l.firstMissing = min(l.firstMissing, revision)
	case revision > l.lastSeen:
		l.lastSeen = revision
		if v, err := version.Revision(); err == nil && v <= l.version {
			l.floor = revision
		}
	}
}

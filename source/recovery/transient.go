package recovery

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"kubecdc/source/apiclient"
)

// findTransient finds objects that were created and deleted in the gap, if there are deletions of unknown objects. It reports
// whether it found any.
func (s *search) findTransient(ctx context.Context) (found bool, err error) {
	runs := s.mostTransient()
	unknown, lost := make([][]identity, len(runs)), make([]bool, len(runs))
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(min(s.Parallel, listsAtOnce))
	for i, run := range runs {
		group.Go(func() (err error) {
			at := run.from
			unknown[i], err = s.unknownAt(inner, at)
			if lost[i] = IsLost(err); lost[i] {
				return s.lose(inner, at, err) // the next round looks elsewhere
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return false, err
	}
	for i, run := range runs {
		at := run.from
		for _, id := range unknown[i] {
			if !s.existsAt(id.key, id.uid, at) {
				s.noteEnd(s.transient(id.key, id.uid), at, min(run.to, s.nextPastList(id.key, at)))
			}
		}
		found = found || lost[i] || len(unknown[i]) > 0
		if !lost[i] && len(unknown[i]) == 0 {
			s.contradiction(fmt.Sprintf("at revision %d an unknown object exists, and the list of names does not have it", at))
		}
	}
	return found, nil
}

// mostTransient returns revisions just before open deletions at which unknown objects exist: one in each run of revisions at
// which there are some, where most exist, with the end of the run, where none exists any more. What is unknown within a run ends
// there; under its uid the object may be back later.
func (s *search) mostTransient() (runs []span) {
	open := map[uint64]bool{}
	for _, r := range s.sizes.openDeletions(s.oldest.Load(), s.To) {
		open[r] = r-1 >= s.oldest.Load()
	}
	at, before, most := uint64(0), int64(0), int64(0)
	for r, existing := range s.unknown() {
		if open[r] && (at == 0 || before > most) {
			at, most = r-1, before
		}
		if before = existing; existing <= 0 && at != 0 {
			runs, at, most = append(runs, span{at, r}), 0, 0
		}
	}
	if at != 0 {
		runs = append(runs, span{at, s.To})
	}
	return runs
}

// unknownAt reads the names at the revision, and returns the incarnations that are not known yet.
func (s *search) unknownAt(ctx context.Context, at uint64) (unknown []identity, err error) {
	err = s.history.Names(ctx, "", at, func(o apiclient.Object) error {
		if !s.existsAt(o.Key(), o.UID, at) {
			unknown = append(unknown, identity{o.Key(), o.UID})
		}
		return nil
	})
	return unknown, err
}

func (s *search) existsAt(key, uid string, at uint64) bool {
	known := false
	for _, l := range s.incarnations[key] {
		if l.uid != uid {
			continue
		}
		if l.created <= at && (l.deleted == 0 || at < l.deleted) && !l.undated {
			return true
		}
		known = true
	}
	k, ok := s.log.Get(key)
	return !known && ok && k.UID == uid
}

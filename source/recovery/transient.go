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
			revision := run.from
			unknown[i], err = s.unknownAt(inner, revision)
			if lost[i] = IsLost(err); lost[i] {
				return s.lose(inner, revision, err) // the next round looks elsewhere
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return false, err
	}
	for i, run := range runs {
		revision := run.from
		for _, id := range unknown[i] {
			if !s.existsAt(id.key, id.uid, revision) {
				s.recordEnd(s.transient(id.key, id.uid), revision, min(run.to, s.nextPastList(id.key, revision)))
			}
		}
		found = found || lost[i] || len(unknown[i]) > 0
		if !lost[i] && len(unknown[i]) == 0 {
			s.contradiction(fmt.Sprintf("at revision %d an unknown object exists, and the list of names does not have it",
				revision))
		}
	}
	return found, nil
}

// mostTransient returns revisions just before open deletions at which unknown objects exist. From each run of such revisions it
// returns the revision with most unknown objects. It also returns the end of the run, where no unknown object exists any more. An
// unknown object within a run ends there. The object may come back later with the same uid.
func (s *search) mostTransient() (runs []span) {
	open := map[uint64]bool{}
	for _, r := range s.sizes.openDeletions(s.oldest.Load(), s.To) {
		open[r] = r-1 >= s.oldest.Load()
	}
	revision, before, most := uint64(0), int64(0), int64(0)
	for r, existing := range s.unknown() {
		if open[r] && (revision == 0 || before > most) {
			revision, most = r-1, before
		}
		if before = existing; existing <= 0 && revision != 0 {
			runs, revision, most = append(runs, span{revision, r}), 0, 0
		}
	}
	if revision != 0 {
		runs = append(runs, span{revision, s.To})
	}
	return runs
}

// unknownAt reads the names at the revision, and returns the incarnations that are not known yet.
func (s *search) unknownAt(ctx context.Context, revision uint64) (unknown []identity, err error) {
	err = s.history.Names(ctx, "", revision, func(o apiclient.Object) error {
		if !s.existsAt(o.Key(), o.UID, revision) {
			unknown = append(unknown, identity{o.Key(), o.UID})
		}
		return nil
	})
	return unknown, err
}

func (s *search) existsAt(key, uid string, revision uint64) bool {
	known := false
	for _, l := range s.incarnations[key] {
		if l.uid != uid {
			continue
		}
		if l.created <= revision && (l.deleted == 0 || revision < l.deleted) && !l.undated {
			return true
		}
		known = true
	}
	k, ok := s.log.Get(key)
	return !known && ok && k.UID == uid
}

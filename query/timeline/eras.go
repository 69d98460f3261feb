package timeline

import (
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// eraOf returns the era of the target, and whether another era follows. The era is nil if the target is before all eras.
func (s *Set) eraOf(st *Timeline) (found *era, ended bool) {
	if all := s.erasOf(st); len(all) > 0 {
		return all[0], all[0] != st.eras[len(st.eras)-1]
	}
	for _, e := range st.eras {
		begun := e.start() != "" && e.start().Compare(s.target.Version) <= 0
		if s.target.Version == "" {
			begun = st.atTarget.Version != "" && e.first.Version != "" && e.first.n <= st.atTarget.n
		}
		if begun || found == nil && e.start() != "" {
			found = e
		} else if found != nil {
			ended = true
		}
	}
	return found, ended
}

// erasOf returns the eras that have the target's version. After a restore of etcd it may stand for a state in each.
func (s *Set) erasOf(st *Timeline) (all []*era) {
	for i, e := range st.eras {
		if s.target.Version != "" && e.has(s.target.Version, i == len(st.eras)-1) {
			all = append(all, e)
		}
	}
	return all
}

// checkUnique returns a TwoStatesError if the target's version stands for two states of a stream.
func (s *Set) checkUnique(st *Timeline) error {
	if all := s.erasOf(st); len(all) > 1 {
		e := &TwoStatesError{Stream: st.Stream, Version: s.target.Version}
		for _, era := range all {
			e.Times = append(e.Times, era.reached)
		}
		return e
	}
	return nil
}

// CompareEra compares the era in which a change was logged with the target's era: negative before, 0 same, positive after.
// inherits reports whether the later one of both has the objects of the earlier one.
func (s *Set) CompareEra(st *Timeline, l *sinks.Logged) (n int, inherits bool) {
	if st == nil || len(st.eras) < 2 {
		return 0, true
	}
	target, _ := s.eraOf(st)
	own, i := len(st.eras)-1, slices.Index(st.eras, target)
	if i < 0 {
		return 0, true
	}
	for own > 0 && st.eras[own].begin.has(l) {
		own--
	}
	return own - i, !slices.ContainsFunc(st.eras[min(own, i)+1:max(own, i)+1], func(e *era) bool { return !e.inherits })
}

// CheckBackups returns a TwoStatesError unless the target's version is certainly not newer than the backups from which later eras
// began. Up to a backup, both histories are the same. The backup is not older than an object that the era's list did not change.
// newestInherited returns the newest version of such objects, as the log was at a time.
func (s *Set) CheckBackups(
	covered []Coverage, newestInherited func(resource string, logged time.Time) (change.ResourceVersion, error),
) error {
	for i := range covered {
		st := s.streams[covered[i].Stream]
		found := s.erasOf(st)
		if len(found) == 0 {
			continue
		}
		for _, e := range st.eras[slices.Index(st.eras, found[0])+1:] {
			if !e.inherits {
				continue
			}
			// The record has milliseconds.
			newest, err := newestInherited(change.ResourceOf(st.Stream).ID(), e.first.Logged.Add(time.Millisecond-1))
			if err != nil {
				return err
			}
			if newest.Compare(s.target.Version) < 0 {
				return &TwoStatesError{st.Stream, s.target.Version, []time.Time{found[0].reached, e.first.Time}}
			}
		}
	}
	return nil
}

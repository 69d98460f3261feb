package reflector

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/source/known"
	"kubecdc/source/recovery"
)

// Restores lets the streams of a process tell each other that etcd was restored from a backup. A stream does not always find that
// out by itself: not if the server has grown past its position, and the newest object that it knows is older than the backup. So
// the stream that finds it out tells all others, and each of them compares all objects with the log, unless its own resource is
// certainly in another etcd. A nil *Restores tells nobody.
type Restores struct {
	mu      sync.Mutex
	found   []restore
	streams []*Reflector // that run
}

// restore is one that a stream has found.
type restore struct {
	by *change.Stream
	at time.Time
}

// join adds a stream that runs, until leave is called.
func (x *Restores) join(r *Reflector) (leave func()) {
	if x == nil {
		return func() {}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.streams = append(x.streams, r)
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.streams = slices.DeleteFunc(x.streams, func(s *Reflector) bool { return s == r })
	}
}

// tell tells the other streams of a restore, unless one that r does not know yet was found already: it is the same one.
func (x *Restores) tell(r *Reflector) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if r.restores == len(x.found) {
		x.found = append(x.found, restore{r.stream, time.Now()})
		for _, s := range x.streams {
			if s != r {
				s.interruptStep(errRestored)
			}
		}
	}
	r.restores = len(x.found)
}

// until returns how many restores were found before a moment.
func (x *Restores) until(moment time.Time) (n int) {
	if x == nil {
		return 0
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for n < len(x.found) && x.found[n].at.Before(moment) {
		n++
	}
	return n
}

// next returns the restore after the first n; nil if there is none.
func (x *Restores) next(n int) *restore {
	if x == nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if n >= len(x.found) {
		return nil
	}
	found := x.found[n]
	return &found
}

// followRestores begins a list that emits older versions too, if another stream has found that etcd was restored.
func (r *Reflector) followRestores(ctx context.Context) error {
	if name := r.state.name(); name == StateLoading || name == StateAbsent {
		return nil
	}
	for found := r.options.Restores.next(r.restores); found != nil; found = r.options.Restores.next(r.restores) {
		if r.position != "" && r.position != change.UnknownVersion { // else the list that runs shows all
			apart, err := r.apartFrom(ctx, found.by)
			if err != nil {
				return fmt.Errorf("find out whether %s is in the etcd that was restored: %w", r.ID(), err)
			}
			if !apart {
				next, err := r.rewind(ctx, r.gapFrom(r.position), "stream "+string(found.by.ID())+" has found it")
				if err != nil {
					return err
				}
				r.state = next
				return nil
			}
		}
		r.restores++
	}
	return nil
}

// rewind begins a list that emits older versions too, since the server's history went back, and tells the other streams. Until
// the list is complete the stream has no position: no watch of the new history may go on from one of the old history.
func (r *Reflector) rewind(ctx context.Context, gap *change.Gap, reason string) (state, error) {
	if r.position != "" {
		if err := r.emit(ctx, change.Item{}, to(change.UnknownVersion)); err != nil {
			return r.state, err
		}
	}
	r.heldBack = ""
	r.tellRestore()
	r.log.Error("the server's history went backwards: comparing all objects with the log", "reason", reason)
	r.observer.Relisted(r.ID(), RelistHistoryWentBack)
	l := r.list(gap)
	l.rewinds = true
	return r.enter(l, "history went backwards: "+reason), nil
}

func (r *Reflector) tellRestore() {
	if recovery := r.options.Recovery; recovery != nil {
		recovery.coordinator.Forget()
	}
	r.options.Restores.tell(r)
}

// contradicts reports whether an object of the server belongs to another history than the log: the log, which is complete up to the
// position, has it at a newer version, or has it not, though it is not newer than the position. Of ignored updates the log may
// have older versions.
func (r *Reflector) contradicts(o *apiclient.Object, d known.Difference) bool {
	switch d {
	case known.Same:
		return false
	case known.Older:
		return true
	case known.Newer:
		return !r.options.Masked && o.Version.Compare(r.position) <= 0
	}
	return !r.unread && o.Version.Compare(r.position) <= 0
}

// apartFrom reports whether the stream's resource is certainly in another etcd than that of another stream. The revision of an etcd
// never goes back, so a consistent read that begins after another one has ended can't be older, if both are of one etcd. Where the
// API server refuses to tell, nothing is certain.
func (r *Reflector) apartFrom(ctx context.Context, other *change.Stream) (bool, error) {
	if other.Resource.ID() == r.stream.Resource.ID() {
		return false, nil
	}
	var limiter *recovery.Limiter
	if r.options.Recovery != nil {
		limiter = r.options.Recovery.limiter
	}
	whole := func(s *change.Stream) *change.Stream { return change.NewStream(s.Resource, s.Namespace, "", "") }
	var versions []change.ResourceVersion
	for _, s := range []*change.Stream{whole(other), whole(r.stream), whole(other)} {
		var p apiclient.Page
		err := limiter.Do(ctx, false, func() (err error) {
			one := apiclient.ListOptions{MetadataOnly: true, Limit: 1}
			p, err = r.client.List(ctx, s, one, func(*apiclient.Page, *apiclient.Object, error) error { return nil })
			return err
		})
		if apiclient.IsRefused(err) || apiclient.IsInvalid(err) || apiclient.IsUnreadable(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		versions = append(versions, p.Version)
	}
	return versions[1].Compare(versions[0]) < 0 || versions[2].Compare(versions[1]) < 0, nil
}

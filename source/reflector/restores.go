package reflector

import (
	"context"
	"slices"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/source/known"
	"kubecdc/source/recovery"
)

// Restores reports to the streams of all processes that etcd was restored from a backup. A stream misses a restore if the server
// has grown past its position, and the newest object that it knows is older than the backup. So the stream that sees it reports
// it to all others. Each of them compares all objects with the log, unless its own resource is certainly in another etcd.
type Restores interface {
	// Tell reports to all streams the restore that a stream has found, and gives it a number, which grows. If that stream has not
	// yet followed an earlier report, both reports are about the same restore. Tell then reports nothing, and returns the earlier
	// report's number.
	Tell(ctx context.Context, found *change.Stream) (number int64, err error)
	// Followed is called once it is durable that a stream has compared all objects since it got the report of this restore.
	Followed(ctx context.Context, stream change.StreamID, number int64) error
}

type restore struct {
	number int64
	finder *change.Stream
}

// FollowRestore tells the stream of a restore that another one, or itself in an earlier process, has found. It may do so again.
func (r *Reflector) FollowRestore(number int64, finder *change.Stream) {
	r.mu.Lock()
	isNew := number > r.newestRestore
	if isNew {
		r.toFollow, r.newestRestore = append(r.toFollow, restore{number, finder}), number
	}
	r.mu.Unlock()
	if isNew {
		r.interruptStep(errRestored)
	}
}

// nextRestore returns the first restore that was reported to the stream and that it does not follow yet.
func (r *Reflector) nextRestore() (next restore, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ok = len(r.toFollow) > 0; ok {
		next = r.toFollow[0]
	}
	return next, ok
}

// follow makes the stream follow all restores up to a number. Once the stream has a position, it has followed them (emit).
func (r *Reflector) follow(number int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.toFollow = slices.DeleteFunc(r.toFollow, func(x restore) bool { return x.number <= number })
	r.newestRestore, r.following = max(r.newestRestore, number), number
}

// followRestores begins a list that emits older versions too, if a restore of etcd was reported to the stream.
func (r *Reflector) followRestores(ctx context.Context) error {
	if r.state.name() == change.StateLoading {
		return nil
	}
	for reported, ok := r.nextRestore(); ok; reported, ok = r.nextRestore() {
		otherEtcd, err := r.hasOtherEtcdThan(ctx, reported.finder)
		if err != nil {
			return r.failed(err, "find out whether %s is in the etcd that was restored", r.ID())
		}
		if !otherEtcd && r.state.name() != change.StateAbsent {
			if r.state, err = r.rewind(ctx, r.openGap(), "stream "+string(reported.finder.ID())+" has found it"); err != nil {
				return err
			}
		}
		r.follow(reported.number)
	}
	return nil
}

// openGap returns the gap of a list that begins now, or nil if that list is still the first one.
func (r *Reflector) openGap() *change.Gap {
	if s, ok := r.state.(interface{ gapBack() *change.Gap }); ok {
		return s.gapBack()
	}
	return r.gapFrom(r.position)
}

// foundRestore tells all streams that etcd was restored, and rewinds this one.
func (r *Reflector) foundRestore(ctx context.Context, gap *change.Gap, reason string) (state, error) {
	if err := r.tellRestore(ctx); err != nil {
		return r.state, err
	}
	return r.rewind(ctx, gap, reason)
}

// rewind begins a list that emits older versions too, since the server's history went back. Until the list is complete the stream
// has no position: no watch of the new history may go on from one of the old history.
func (r *Reflector) rewind(ctx context.Context, gap *change.Gap, reason string) (state, error) {
	if r.position != "" {
		if err := r.emit(ctx, change.Item{}, to(change.UnknownVersion)); err != nil {
			return r.state, err
		}
	}
	r.heldBack = ""
	r.forgetWrites()
	r.log.Error("the server's history went backwards: comparing all objects with the log", "reason", reason)
	r.observer.Relisted(r.ID(), RelistHistoryWentBack)
	l := r.list(gap)
	l.rewinds = true
	return r.enter(l, "history went backwards: "+reason), nil
}

// tellRestore tells all streams that etcd was restored. Changed objects may be emitted only after that, since they are what shows
// the restore.
func (r *Reflector) tellRestore(ctx context.Context) error {
	r.forgetWrites()
	if r.options.Restores == nil {
		return nil
	}
	number, err := r.options.Restores.Tell(ctx, r.stream)
	if err != nil {
		return r.failed(err, "tell all streams that %s has found that etcd was restored", r.ID())
	}
	r.follow(number)
	return nil
}

// forgetWrites lets recoveries forget what is known of revisions, which are used again.
func (r *Reflector) forgetWrites() {
	if shared := r.options.Recovery; shared != nil {
		shared.coordinator.Forget()
	}
}

// contradicts reports whether an object of the server belongs to another history than the log, which is complete up to the
// position. The log then has a newer version of the object, or lacks an object that is not newer than the position. The log may
// have older versions after ignored updates.
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

// hasOtherEtcdThan reports whether the stream's resource is certainly in another etcd than another stream's. The revision of one
// etcd never decreases, so a consistent read can't be older than one that ended before it began. If the API server refuses these
// reads, nothing is certain.
func (r *Reflector) hasOtherEtcdThan(ctx context.Context, other *change.Stream) (bool, error) {
	return r.areInTwoEtcds(ctx, r.stream, other)
}

// areInTwoEtcds reports whether the resources of two streams are certainly in two etcds.
func (r *Reflector) areInTwoEtcds(ctx context.Context, one, other *change.Stream) (bool, error) {
	if other.Resource.ID() == one.Resource.ID() {
		return false, nil
	}
	var limiter *recovery.Limiter
	if r.options.Recovery != nil {
		limiter = r.options.Recovery.limiter
	}
	unselected := func(s *change.Stream) *change.Stream { return change.NewStream(s.Resource, s.Namespace, "", "") }
	var versions []change.ResourceVersion
	for _, s := range []*change.Stream{unselected(other), unselected(one), unselected(other)} {
		var version change.ResourceVersion
		err := limiter.Do(ctx, false, func() (err error) {
			version, err = r.client.First(ctx, s)
			return err
		})
		if apiclient.IsRefused(err) || apiclient.IsInvalid(err) || apiclient.IsUnreadable(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		versions = append(versions, version)
	}
	return versions[1].Compare(versions[0]) < 0 || versions[2].Compare(versions[1]) < 0, nil
}

package reflector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/source/known"
)

// silence holds what is known of a watch that says nothing: no event and no bookmark for all its time.
//
// That is no news of a quiet collection only where the server has a watch cache, which sends bookmarks. Events have none
// in kube-apiserver, other resources may have none (--watch-cache=false, aggregated servers). Of these a quiet stream's
// position must move too, or the server compacts it, and each watch ends in a 410. Bookmarks say that nothing happened;
// here it has to be found out:
//
//  1. A watch from the position P ends in silence. The history is verified as ever (verifying.go): that consistent read also
//     wakes a watch cache that has seen nothing since its start, and from then on there are bookmarks.
//  2. The next one ends in silence too. All identities are listed, a consistent read, at L. Where key, uid and version of
//     each object are what the log has, nothing is different: no object was created, changed or deleted between P and L
//     to stay so. Created and deleted again, one may have been.
//  3. So the watch still goes on from P, not from L. It begins when L is past, so it delivers at once what happened
//     before L. Where it ends in silence too, after all its time, nothing did: the position moves to L. 2. again.
//
// Where the server compacts faster than that, 3. comes too late: compare_open.go lists earlier.
//
// What remains: an object that lived and died between P and L, and a watch that is stuck on its server, twice, for all its
// time, and then ends as if all were well. (etcd's client ends a watch whose member is cut off from the others; a stuck
// watch cache would have to be without bookmarks.) What an object became is not passed over even then: 2 sees it.
//
// Where the list does differ, the watch has to tell of it. One that is silent all its time once more doesn't deliver: it
// is treated as if it had expired, by fresh connections and then by recovery or a list.
//
// The cost is a list of identities a watch, a minute at most by default, of a collection in which nothing happens; and
// Events live for an hour, so where many are, something does happen. Large ones are listed more rarely (listShare).
type silence struct {
	watches  int                    // in a row
	quietTo  change.ResourceVersion // a list at this version was the same as the index; the watch that follows has to say nothing too
	differs  bool                   // the last list was not the same
	compared bool                   // the list was made while the last watch was open (compare_open.go)
	listed   time.Time
	listTook time.Duration
}

const (
	// longSilence is enough for a watch to say what happened before it began, where the server ends it before its time.
	longSilence = 20 * time.Second
	// listShare bounds what part of the time the lists may take, up to listPause: 1/20.
	listShare = 20
	listPause = 2 * time.Minute
)

// silent decides what follows a watch that ended in silence. suspected says that a list before it showed what it did not tell.
func (s *watching) silent(ctx context.Context, suspected bool) (state, error) {
	if suspected {
		return s.enter(&expired{s}, fmt.Sprintf("the watch from resourceVersion %s says nothing of changes that a list shows", s.cursor)), nil
	}
	s.client, s.bookmarks = s.shared, false
	s.silence.watches++
	if l := s.catchUp; l != nil && s.silence.watches > 1 { // nothing takes the watch past the list's end
		l.restart()
		return s.enter(l, "the list begins again: the watch after it is silent"), nil
	}
	if quietTo := s.silence.quietTo; quietTo != "" {
		s.silence.quietTo = ""
		if err := s.confirm(ctx, s.watched(quietTo)); err != nil {
			return s, err
		}
	}
	if s.silence.compared {
		s.silence.compared = false
		return s.enter(s, "the watch said nothing, and a list in its time tells how far"), nil
	}
	if s.silence.resting() {
		return s.enter(s, "the watch said nothing; the collection is large and was compared a moment ago"), nil
	}
	return s.enter(s.verify(s), "the watch ran into its timeout and said nothing"), nil
}

// broken forgets what the silence told, but for how long a list takes.
func (x *silence) broken() { *x = silence{listed: x.listed, listTook: x.listTook} }

// resting reports whether the last list was too long a one for the next to follow already.
func (x *silence) resting() bool {
	return time.Since(x.listed) < min(listShare*x.listTook, listPause)
}

// due reports whether a list has to tell if anything happened.
func (x *silence) due() bool { return x.watches > 1 && x.quietTo == "" && !x.differs }

// compare lists identities and records whether they are what the log has.
func (s *watching) compare(ctx context.Context) error {
	started, n, same := time.Now(), 0, true
	version, err := s.listIdentities(ctx, nil, func(o apiclient.Object) {
		same = same && s.known.Compare(o.Key(), o.UID, o.Version) == known.Same
		n++
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		s.fresh = 0
	}
	s.silence.listed, s.silence.listTook = time.Now(), time.Since(started)
	switch {
	case apiclient.IsUnreadable(err) && !errors.Is(err, apiclient.ErrUnsupported): // it stands in the dead letter, and not in the index
		s.log.Warn("a quiet collection can't be compared with the log", "error", err)
	case err != nil:
		return err
	case version.Compare(s.cursor) < 0: // a server that is behind, or was set back: verifying.go finds out
	case same && n == s.known.Len():
		s.silence.quietTo = version
	default:
		s.silence.differs = true
	}
	return nil
}

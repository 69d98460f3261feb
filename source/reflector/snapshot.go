package reflector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/internal/wait"
	"kubecdc/source/apiclient"
	"kubecdc/source/known"
)

// Snapshot reads the collection, or a part of it, on demand, while the stream's watch is open and goes on between two objects. It
// moves no position. All pages are of one list at Version, an exact read of the past, so no object is in two pages.
//
// With All it emits every object, as of that version, to another place. Otherwise it compares the objects with the log, and emits
// each difference, so that the log has the server's state:
//
// 1. An object that is newer than the stream's position is left to the watch, which will deliver it. An object that is older than
// the log's is skipped, since the watch has delivered a newer one.
//
// 2. An object is in doubt if the log lacks it or has an older version, although the position is past the newer one. It is in
// doubt too if the versions are equal and the body is not the stored one. The present state of an object in doubt is read while
// the watch waits, so the emitted state is right at the stream's position.
//
// 3. An object that the log has and the list lacks was deleted, once the position has passed the list's version.
//
// Memory does not grow with the collection: it holds the keys of a page, and the keys of deleted objects.
type Snapshot struct {
	Namespace string // empty: all of the stream's
	Labels    string // a label selector besides the stream's
	After     string // objects up to this key were done by an earlier snapshot
	// emit every object, by the stream change.SnapshotOf, and do not compare with the log
	All   bool
	Begin func(change.ResourceVersion) error // is called with the version of each list, before its first object
	Page  func(SnapshotProgress) error       // is called after each page

	Version change.ResourceVersion // the running list's version
	Changes int64                  // that were emitted
}

// SnapshotProgress is how far a snapshot is after a page.
type SnapshotProgress struct {
	Key         string // the page's last key if the list is ordered, else empty
	Done, Total int64  // objects
	Emitted     bool   // something was emitted since the last page
}

// snapshotLists is how many lists a snapshot begins at most, if they expire between two pages.
const snapshotLists = 10

type snapshot struct {
	*Reflector
	*Snapshot
	from     *change.Stream    // what of the stream's collection is listed
	into     *change.Stream    // what objects are emitted as, with All
	api      *apiclient.Client // the client of the running list
	pass     uint32            // the pass of the known objects, at the running list
	token    string
	last     string // key
	sorted   bool
	readable bool // every object could be read
	done     int64
	rest     int64 // objects that follow the page
	reported int64 // Changes at the last page
	seed     maphash.Seed
	page     snapshotPage
}

type snapshotPage struct {
	doubtful []string
	same     map[string]bodyHash // objects whose version is the log's, and after settle the hash of each stored body that differs
}

// Snapshot reads the snapshot until it is complete. It waits while the stream is not watching, or the API server is overloaded.
// If the list expires between two pages, it begins another list, up to snapshotLists of them. It fails with any other error, or
// when the context ends.
func (r *Reflector) Snapshot(ctx context.Context, what *Snapshot) error {
	s := &snapshot{Reflector: r, Snapshot: what, seed: maphash.MakeSeed()}
	r.snapshots.Add(1)
	defer r.snapshots.Add(-1)
	for range snapshotLists {
		err := s.list(ctx)
		if !apiclient.IsGone(err) {
			return err
		}
		r.log.Warn("the list of a snapshot expired; it goes on with a new list", "after", s.After, "error", err)
	}
	return fmt.Errorf("the list expired %d times between two pages: the API server's history is too short", snapshotLists)
}

func (s *snapshot) list(ctx context.Context) error {
	s.token, s.last, s.sorted, s.readable, s.done, s.Version = "", "", true, true, 0, ""
	err := s.borrow(ctx, func() error {
		s.known.StartPass()
		s.pass, s.from, s.into, s.api = s.known.Pass(), s.part(), change.SnapshotOf(s.stream), s.client
		return nil
	})
	if err == nil {
		err = s.again(ctx, func() error { return s.begin(ctx) })
	}
	for first := true; err == nil && (first || s.token != ""); first = false {
		started := time.Now()
		if err = s.again(ctx, func() error { return s.read(ctx) }); err == nil && s.token != "" {
			err = wait.For(ctx, time.Since(started)) // it takes half of the stream's time at most
		}
	}
	if err != nil || s.All || s.Labels != "" || !s.readable {
		return err
	}
	return s.deletions(ctx)
}

func (s *snapshot) part() *change.Stream {
	labels := s.stream.LabelSelector
	if labels != "" && s.Labels != "" {
		labels += ","
	}
	namespace := s.stream.Namespace
	if s.Namespace != "" {
		namespace = s.Namespace
	}
	return change.NewStream(s.stream.Resource, namespace, labels+s.Labels, s.stream.FieldSelector)
}

// again repeats do after errors of the API server that may pass.
func (s *snapshot) again(ctx context.Context, do func() error) error {
	delay := 200 * time.Millisecond
	for {
		err := do()
		if err == nil || ctx.Err() != nil || !apiclient.IsOverload(err) {
			return err
		}
		delay = min(2*delay, s.options.MaxBackoff)
		s.log.Warn("a page of a snapshot can't be read; trying again", "in", delay, "error", err)
		if err := wait.For(ctx, max(delay, apiclient.RetryAfter(err))); err != nil {
			return err
		}
	}
}

func (s *snapshot) read(ctx context.Context) error {
	release, err := s.options.Lists.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	last, sorted, n := s.last, s.sorted, int64(0)
	s.page = snapshotPage{same: map[string]bodyHash{}}
	options := apiclient.ListOptions{MetadataOnly: s.options.MetadataOnly, Pace: s.pace, Continue: s.token, Exact: s.Version}
	p, err := s.api.List(ctx, s.from, options, func(_ *apiclient.Page, o *apiclient.Object, unreadable error) error {
		n++
		return s.item(ctx, o, unreadable)
	})
	if options.Limit = p.Limit; err == nil {
		err = s.settle(ctx, options)
	}
	if err != nil {
		s.last, s.sorted = last, sorted // the page is read again
		return err
	}
	s.token, s.done, s.rest = p.Continue, s.done+n, max(p.Remaining, 0)
	return s.report()
}

func (s *snapshot) begin(ctx context.Context) error {
	version, err := s.api.First(ctx, s.from)
	if err == nil {
		err = s.Begin(version)
	}
	if err == nil {
		s.Version = version
	}
	return err
}

func (s *snapshot) report() error {
	p := SnapshotProgress{Done: s.done, Total: s.done + s.rest, Emitted: s.Changes > s.reported}
	if s.sorted {
		s.After = max(s.After, s.last)
		p.Key = s.After
	}
	s.reported = s.Changes
	return s.Page(p)
}

// item takes an object of a page. Its bytes are valid until it returns.
func (s *snapshot) item(ctx context.Context, o *apiclient.Object, unreadable error) error {
	if errors.Is(unreadable, apiclient.ErrUnsupported) {
		return unreadable
	}
	if unreadable != nil { // the watch sends it to the dead letter
		s.readable = false
		return nil
	}
	key := o.Key()
	s.sorted = s.sorted && key > s.last
	s.last = key
	if s.All {
		return s.copy(ctx, o)
	}
	if err := s.take(ctx); err != nil {
		return err
	}
	d, passed := s.known.Compare(key, o.UID, o.Version), s.position.Compare(o.Version) >= 0
	if s.known.Pass() == s.pass {
		s.known.Mark(key)
	}
	s.release()
	switch {
	case key <= s.After:
	case d == known.Same && s.options.Stored:
		if err := o.Prepare(s.options.Redactor, &s.from.Resource); err == nil {
			s.page.same[key] = bodyHash{o.Version, rawjson.Sum(s.seed, o.Raw)}
		}
	case passed && (d == known.Newer || d == known.Absent || d == known.Successor):
		s.page.doubtful = append(s.page.doubtful, key)
	}
	return ctx.Err()
}

// copy emits an object, as it is, to another place.
func (s *snapshot) copy(ctx context.Context, o *apiclient.Object) error {
	if o.Key() <= s.After {
		return nil
	}
	o.Raw = bytes.Clone(o.Raw)
	if err := o.Prepare(s.options.Redactor, &s.from.Resource); err != nil {
		return nil // the watch sends it to the dead letter
	}
	s.Changes++
	if s.sorted {
		s.After = o.Key()
	}
	c := &change.Change{Stream: s.into, Op: change.Read, Namespace: o.Namespace, Name: o.Name, UID: o.UID,
		ResourceVersion: o.Version, After: o.Raw, Time: time.Now()}
	return s.out.Send(ctx, change.Item{Stream: s.into.ID(), Change: c, Time: c.Time})
}

// settle compares the bodies of a page with the stored ones, and decides about the objects in doubt.
func (s *snapshot) settle(ctx context.Context, page apiclient.ListOptions) error {
	differ, err := s.compareBodies(ctx, s.seed, s.page.same, func(lacking map[string]bodyHash) error {
		return s.storeBodies(ctx, s.api, s.from, page, lacking)
	})
	if err != nil {
		return err
	}
	s.page.same = differ
	s.page.doubtful = append(s.page.doubtful, slices.Sorted(maps.Keys(differ))...)
	for _, key := range s.page.doubtful {
		err := s.again(ctx, func() error {
			return s.borrow(ctx, func() error { return s.correct(ctx, key) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// correct reads an object in doubt, and emits what differs from the log at the stream's position.
func (s *snapshot) correct(ctx context.Context, key string) error {
	found, err := s.readOne(ctx, key)
	if err != nil || found == nil || found.Version.Compare(s.position) > 0 { // the watch will deliver it, or its deletion
		return err
	}
	d := s.known.Compare(key, found.UID, found.Version)
	if err := found.Prepare(s.options.Redactor, &s.stream.Resource); err != nil {
		return nil // the watch sends it to the dead letter
	}
	stored := s.page.same[key]
	if d == known.Same && (stored.version != found.Version || stored.hash == rawjson.Sum(s.seed, found.Raw)) ||
		d == known.Older || d == known.Predecessor {
		return nil
	}
	n := missed{}
	err = s.sendMissed(ctx, found, d, "", &n)
	s.Changes += int64(n.all())
	return err
}

// deletions emits the deletion of each object that the log has and the list has not. It waits until the position has passed the
// list's version, since the watch may deliver the deletions until then. If the stream was listed during the snapshot, that list
// has shown the deletions.
func (s *snapshot) deletions(ctx context.Context) error {
	var missing []string
	err := s.borrow(ctx, func() error {
		if s.known.Pass() == s.pass {
			missing = s.known.Unseen()
		}
		return nil
	})
	for err == nil {
		passed := false
		err = s.borrow(ctx, func() error {
			missing = s.stillMissing(missing)
			passed = len(missing) == 0 || s.position.Compare(s.Version) >= 0
			for i := 0; passed && i < len(missing); i++ {
				if err := s.sendDelete(ctx, missing[i], "", move{}); err != nil {
					return err
				}
				s.Changes++
			}
			return nil
		})
		if err != nil || passed {
			break
		}
		err = wait.For(ctx, turnPause)
	}
	if err == nil && s.Changes > s.reported {
		return s.report()
	}
	return err
}

// stillMissing returns the keys that the log has, and had already when the list was made.
func (s *snapshot) stillMissing(keys []string) (missing []string) {
	if s.known.Pass() != s.pass {
		return nil
	}
	for _, key := range keys {
		namespace, _ := change.SplitKey(key)
		o, ok := s.known.Get(key)
		if ok && o.Version.Compare(s.Version) <= 0 && (s.Namespace == "" || s.Namespace == namespace) {
			missing = append(missing, key)
		}
	}
	return missing
}

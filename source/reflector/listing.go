package reflector

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/change"
	"kubecdc/internal/slab"
	"kubecdc/source/apiclient"
	"kubecdc/source/known"
)

// listing reads the complete collection, in pages or as a streaming list (streaming.go), and emits what differs from the known
// objects. The first list emits everything. A list after a 410 emits what the watch missed. Known objects that the list does not
// have are deleted. Only the known objects are held in memory.
//
// After an error the list goes on at the page that failed. So one value lasts until the list is complete, and counts everything
// that was emitted.
//
// A list of pages is one state of the collection, at the version of its first page. If the server compacts that version before
// the last page is read, the list is restarted. If that happens again, the collection is too large for a consistent list. The
// list then goes on with the inconsistent token that the server offers, so the remaining pages are newer.
//
// An inconsistent list is complete only when a watch from the first page's version has passed the last page's version. Until then
// the stream catches up (watching.go): the position does not move, and no deletion is inferred. The watch delivers all changes,
// including deletions, and drops a change that the pages have shown. A key that no page and no event has shown was deleted before
// the first page. After a crash the list starts again from the old position.
type listing struct {
	*Reflector
	gap         *change.Gap            // the gap that the list closes, or nil for the first snapshot
	pastVersion change.ResourceVersion // the version at which the collection is listed, or empty for its present state
	lost        *change.Gap            // the gap that a present list closes if there is no list of that version any more
	rewinds     bool                   // the server's history went back: older versions are emitted too
	begun       bool
	floor       change.ResourceVersion // the log has something of this version, so a list that is older is stale
	token       string                 // continue token of the next page
	version     change.ResourceVersion // the version of the first page, and so of the list
	until       change.ResourceVersion // the version of an inconsistent list's last page, else empty
	restarts    int
	paged       bool       // the list is read in pages, since it could not be streamed
	streamEnds  time.Time  // when the server ends the watch of a streaming list
	objects     int        // on complete pages
	slab        *slab.Slab // has room for the next objects; nil: none

	missed   missed // what was emitted
	rewound  bool   // an object is older than in the log
	nameless int    // objects that can't be read, and that nobody knows the names of
}

// list returns the state that lists the collection and closes the gap. gap is nil for the first snapshot.
func (r *Reflector) list(gap *change.Gap) *listing { return &listing{Reflector: r, gap: gap} }

func (l *listing) name() change.StreamState { return change.StateListing }

func (l *listing) gapBack() *change.Gap { return cmp.Or(l.gap, l.lost) }

func (l *listing) step(ctx context.Context) (state, error) {
	l.report(l.objects)
	done, err := l.options.Lists.acquire(ctx)
	if err != nil {
		return l, err
	}
	next, open, err := l.readOnce(ctx)
	done()
	if open == nil {
		return next, err
	}
	defer open.Close()
	return l.goOn(ctx, next, open)
}

// report says how many objects of a first list were read, of how many.
func (l *listing) report(total int) {
	if l.gap == nil {
		l.observer.ListProgress(l.ID(), int64(l.objects), int64(total))
	}
}

// readOnce reads the list, or what is left of it. After a streaming list it also returns the watch, which is still open.
func (l *listing) readOnce(ctx context.Context) (state, *apiclient.Watch, error) {
	if err := l.begin(ctx); err != nil {
		return l, nil, err
	}
	open, err := l.read(ctx)
	switch {
	case errors.Is(err, errStale) && l.rewound:
		next, err := l.rewind(ctx, l.gap, err.Error())
		return next, nil, err
	case errors.Is(err, errStale):
		l.cursor = l.position // the list that the stream was catching up with is dropped
		v := l.verify(l.watch(nil))
		v.gap = l.gap
		return l.enter(v, err.Error()), nil, err
	case err != nil && l.pastVersion != "" && l.hasNoPast(err):
		reason := fmt.Sprintf("relist: no list of resourceVersion %s: %s", l.pastVersion, apiclient.Reason(err))
		return l.enter(l.list(l.lost), reason), nil, nil
	case err != nil:
		return l, nil, l.failed(err, "list %s", l.ID())
	case l.until != "":
		l.cursor = l.version
		return l.enter(l.watch(l), fmt.Sprintf("the list ran from resourceVersion %s to %s: catching up", l.version, l.until)),
			nil, nil
	}
	if err := l.finish(ctx, l.version); err != nil {
		open.Close()
		return l, nil, err
	}
	return l.enter(l.watch(nil), "listed at resourceVersion "+string(l.version)), open, nil
}

func (l *listing) snapshot() bool { return l.gap == nil }

// gapID returns the id of the gap that the list closes, or "" for a snapshot.
func (l *listing) gapID() string {
	if l == nil || l.gap == nil {
		return ""
	}
	return l.gap.ID
}

// restart makes the next step begin again at the first page.
func (l *listing) restart() {
	l.token = ""
	l.restarts++
}

// startPass makes the list begin with its first object. It does not reset the counts of changes, since those changes were
// emitted. A list that is older than what the log has now is stale.
func (l *listing) startPass() {
	l.token, l.version, l.until, l.objects, l.nameless = "", "", "", 0, 0
	l.floor, l.upToDate = l.newestEmitted(), time.Now()
	l.known.StartPass()
	if l.rewinds {
		l.endings = nil
	}
}

func (l *listing) begin(ctx context.Context) error {
	if l.token == "" { // else the step goes on at the page that failed
		l.startPass()
	}
	if l.snapshot() && !l.begun {
		if err := l.sendControl(ctx, change.SnapshotBeginControl(l.ID(), l.reason)); err != nil {
			return err
		}
	}
	l.begun = true
	return nil
}

// hasNoPast reports whether the server can't list the past. It answers 500 for ever if an object was stored in a version that was
// removed.
func (l *listing) hasNoPast(err error) bool {
	return apiclient.IsGone(err) || errors.Is(err, apiclient.ErrNotExact) || apiclient.IsInvalid(err) ||
		apiclient.IsUnreadable(err) ||
		apiclient.StatusCode(err) == http.StatusInternalServerError && l.failures.inRow >= 3
}

func (l *listing) read(ctx context.Context) (*apiclient.Watch, error) {
	if !l.paged && l.pastVersion == "" && l.streams(ctx) {
		open, err := l.streamed(ctx)
		if !l.fallsBack(err) {
			return open, err
		}
	}
	l.paged = true
	return nil, l.readPages(ctx)
}

func (l *listing) readPages(ctx context.Context) error {
	for {
		err := l.page(ctx)
		if apiclient.IsGone(err) && l.pastVersion == "" {
			err = l.expired(err)
		}
		if err != nil {
			return err
		}
		if l.token == "" {
			return nil
		}
	}
}

// expired answers a 410 on a page: the server has compacted the list's version.
func (l *listing) expired(err error) error {
	if next := inconsistentToken(err); next != "" && l.restarts > 0 && l.version != "" {
		l.log.Warn("the list goes on with an inconsistent token", "reason", apiclient.Reason(err), "from", l.version,
			"objects", l.objects)
		l.token, l.until = next, l.version
		return nil
	}
	l.restart()
	return fmt.Errorf("the list expired between two pages, and begins again: %w", err)
}

// inconsistentToken returns the token in a 410, which continues the list after the last key at the newest version
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks).
func inconsistentToken(err error) string {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return status.ErrStatus.Continue
	}
	return ""
}

func (l *listing) page(ctx context.Context) error {
	n, held := 0, []apiclient.Object(nil) // until the list's version is known
	options := apiclient.ListOptions{MetadataOnly: l.options.MetadataOnly, Pace: l.pace, Continue: l.token, Exact: l.pastVersion}
	p, err := l.client.List(ctx, l.stream, options, func(p *apiclient.Page, o *apiclient.Object, unreadable error) error {
		if err := l.checkFresh(p.Version); err != nil {
			return err
		}
		n++
		if p.Version == "" && l.version == "" && unreadable == nil && l.maybeStale(o) {
			copied := *o
			copied.Raw = bytes.Clone(o.Raw)
			held = append(held, copied)
			return nil
		}
		return l.item(ctx, o, unreadable)
	})
	if err == nil {
		err = l.checkFresh(p.Version)
	}
	for i := 0; err == nil && i < len(held); i++ {
		err = l.object(ctx, &held[i])
	}
	if err != nil {
		return err
	}
	l.resetBackoff()
	l.objects += n
	if l.version == "" {
		l.version = p.Version
	}
	if l.until != "" {
		l.until = p.Version
	}
	l.token = p.Continue
	l.report(l.objects + int(max(p.Remaining, 0)))
	return nil
}

// errStale reports that a list is older than the log. Nothing of it may be emitted until verifying.go knows why.
var errStale = errors.New("the list is older than the log")

// checkFresh returns errStale if the list is older than the log. kube-apiserver sends the version of a list of custom resources
// after the items. Until then version is empty.
func (l *listing) checkFresh(version change.ResourceVersion) error {
	if version == "" || l.rewinds || version.Compare(l.floor) >= 0 {
		return nil
	}
	return fmt.Errorf("%w: the list has resourceVersion %s, the log %s", errStale, version, l.floor)
}

// maybeStale reports whether the item differs from the log and is not newer. A list that is older than the log would explain
// that.
func (l *listing) maybeStale(o *apiclient.Object) bool {
	return !l.rewinds && o.Version.Compare(l.floor) <= 0 && l.known.Compare(o.Key(), o.UID, o.Version) != known.Same
}

// item emits the change of one item of a page, if there is one. An item that can't be read exists, so it must not be taken for
// deleted. If its name is not known, no other object may be taken for deleted either.
func (l *listing) item(ctx context.Context, o *apiclient.Object, unreadable error) error {
	if errors.Is(unreadable, apiclient.ErrUnsupported) {
		return unreadable // all items are like that, and none of them must be taken for deleted
	}
	if unreadable == nil {
		return l.object(ctx, o)
	}
	if o.Name == "" {
		l.nameless++
	}
	l.known.Mark(o.Key())
	return l.sendMalformed(ctx, o.Raw, unreadable)
}

// object emits the change of a listed object, if there is one. In one history a list never has an older version of an object than
// the log. So another version of the same object is always a change. It leads to a newer version or, after etcd was restored from
// a backup, to an older one. Two histories that both wrote an object at one revision give that resourceVersion to two states,
// which can't be seen here.
func (l *listing) object(ctx context.Context, o *apiclient.Object) error {
	d := l.known.CompareListed(o.Key(), o.UID, o.Version)
	if d == known.Same {
		return nil
	}
	if d == known.Older && l.until != "" {
		l.known.Mark(o.Key())
		return nil
	}
	if !l.rewinds && !l.rewound && l.contradicts(o, d) {
		l.log.Error("the server has another history than the log", "object", o.Key(), "resourceVersion", o.Version, "position",
			l.position)
		if err := l.tellRestore(ctx); err != nil {
			return err
		}
		l.rewound = true
	}
	raw := o.Raw
	o.Room = func(n int) []byte { return l.room(o, n) }
	if err := o.Prepare(l.options.Redactor, &l.stream.Resource); err != nil {
		return l.sendMalformed(ctx, o.Raw, err)
	}
	if &o.Raw[0] == &raw[0] && o.Slab == nil { // only what is emitted is kept
		o.Raw = append(l.room(o, len(raw)), raw...)
	}
	if l.snapshot() && d == known.Absent {
		return l.send(ctx, l.newChange(change.Read, o), move{})
	}
	return l.sendMissed(ctx, o, d, l.gapID(), &l.missed)
}

// room gives an object memory that is used again once its change is durable. Most collections are small.
func (l *listing) room(o *apiclient.Object, n int) []byte {
	const smallest, largest = 4 << 10, 64 << 10
	if l.slab == nil {
		l.slab = slab.New(max(n, smallest))
	} else if size := cap(l.slab.Bytes); size-len(l.slab.Bytes) < n {
		l.slab.Release()
		l.slab = slab.New(max(n, min(2*size, largest)))
	}
	start := len(l.slab.Bytes)
	l.slab.Bytes, o.Slab = l.slab.Bytes[:start+n], l.slab.Hold()
	return l.slab.Bytes[start : start : start+n]
}

// finish emits the deletions and the control record of the list, and moves the position. The gap record comes before the
// deletions. Otherwise, if this session ended between them, the next session would not see the gap.
func (l *listing) finish(ctx context.Context, version change.ResourceVersion) error {
	return l.uninterrupted(func() error { return l.emitEnd(ctx, version) })
}

func (l *listing) emitEnd(ctx context.Context, version change.ResourceVersion) error {
	unseen := l.unseen()
	l.missed.deleted += len(unseen)
	record := l.end(version)
	if record != nil && !l.snapshot() && len(unseen) > 0 {
		if err := l.sendControl(ctx, *record); err != nil {
			return err
		}
		record = nil
	}
	for i, key := range unseen {
		moves := move{}
		if !l.snapshot() && i == len(unseen)-1 {
			moves = to(version)
		}
		if err := l.sendDelete(ctx, key, l.gapID(), moves); err != nil {
			return err
		}
	}
	l.ahead = ""
	if l.position == version && record == nil {
		return nil
	}
	return l.emit(ctx, change.Item{Control: record}, to(version))
}

func (l *listing) unseen() []string {
	missing := l.known.Unseen()
	if l.nameless > 0 && len(missing) > 0 {
		l.log.Warn("the list has objects without a readable name: no deletion is inferred from it", "unreadable", l.nameless,
			"missing", len(missing))
		return nil
	}
	return missing
}

// end returns the control record of the list, or nil if the list is the state that the log has.
func (l *listing) end(version change.ResourceVersion) *change.Control {
	switch {
	case l.snapshot():
		c := change.SnapshotEndControl(l.ID(), version, l.objects)
		return &c
	case l.nothingMissed(version):
		l.log.Info("nothing was missed", "position", version)
		return nil
	}
	g := l.inferred(version)
	l.log.Warn("gap", "from", g.From, "to", g.To, "complete", g.Complete, "inferred", g.Inferred, "reason", g.Reason)
	c := change.GapControl(l.ID(), version, g, l.reason)
	return &c
}

// nothingMissed reports whether the gap is empty: the server is at the log's position, and nothing differs.
func (l *listing) nothingMissed(version change.ResourceVersion) bool {
	return version == l.gap.From && l.missed.all() == 0 && !l.rewinds
}

// inferred returns the record of a gap that was closed by comparison alone.
func (l *listing) inferred(version change.ResourceVersion) change.Gap {
	g := *l.gap
	g.To, g.Reason = version, "only the difference between two states is known, not what happened between them"
	if l.rewinds || l.rewound {
		g.Reason = change.HistoryWentBack + ": the server was restored from a backup; what differs from the log was sent, " +
			"also where it is older"
	}
	g.Created, g.Updated, g.Deleted, g.Inferred = l.missed.created, l.missed.updated, l.missed.deleted, l.missed.all()
	return g
}

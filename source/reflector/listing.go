package reflector

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/source/known"
)

// listing reads the whole collection and emits what differs from the known objects: everything, the first time; after a 410,
// what the watch missed. Known objects that the list does not have are deleted. Nothing but the known objects is held in
// memory. After an error the list goes on at the page that failed, so one value lasts until the list is complete, and its
// tallies count all that was emitted.
//
// A list of pages is one state of the collection, at the version of its first page, unless the server forgets that version
// before the last page is read. Then the list is restarted. If that happens again, the list is too big to ever end that way,
// and goes on with the inconsistent token that the server offers: the rest of it is newer than its beginning. Such a list is
// complete only when a watch from its first page's version has passed the version of its last page: the stream catches up
// (watching.go). Until then the position stays, and no deletion is inferred. What the watch tells on the way are the changes
// themselves, deletions too; what the pages told already is dropped. A key that is then still unseen was deleted before the
// first page. A crash on the way starts again from the old position.
type listing struct {
	*Reflector
	gap      *change.Gap // that the list closes; nil: it is the first snapshot
	rewinds  bool        // the list may take the log back in time
	begun    bool
	token    string                 // of the next page
	version  change.ResourceVersion // the list's: of the first page
	until    change.ResourceVersion // of an inconsistent list: what the watch must pass
	restarts int
	objects  int // on complete pages

	created, updated, deleted int
	rewound                   bool // an object is older than the log has it
	failed                    int  // attempts to read it as a stream
	older                     bool // the stream has older objects than the log
}

// list begins a list, which closes the gap; nil: the first snapshot.
func (s *Reflector) list(gap *change.Gap) *listing { return &listing{Reflector: s, gap: gap} }

func (l *listing) name() State { return StateListing }

func (l *listing) step(ctx context.Context) (state, error) {
	done, err := l.options.Lists.acquire(ctx)
	if err != nil {
		return l, err
	}
	defer done()
	if err := l.begin(ctx); err != nil {
		return l, err
	}
	err = l.read(ctx)
	switch {
	case errors.Is(err, errStale):
		v := l.verify(l.watch(nil))
		v.gap = l.gap
		return l.enter(v, err.Error()), err
	case err != nil:
		return l, fmt.Errorf("list %s: %w", l.ID(), err)
	case l.until != "":
		l.cursor = l.version
		return l.enter(l.watch(l), fmt.Sprintf("the list ran from resourceVersion %s to %s: catching up", l.version, l.until)), nil
	}
	if err := l.finish(ctx, l.version); err != nil {
		return l, err
	}
	return l.enter(l.watch(nil), "listed at resourceVersion "+string(l.version)), nil
}

// snapshot reports whether this is the stream's first list.
func (l *listing) snapshot() bool { return l.gap == nil }

// gapID names the gap that the list closes; empty for a snapshot.
func (l *listing) gapID() string {
	if l == nil || l.gap == nil {
		return ""
	}
	return l.gap.ID
}

// restart begins again at the first page; the tallies stay, since what was emitted is known.
func (l *listing) restart() {
	l.token, l.version, l.until, l.objects = "", "", "", 0
	l.restarts++
	l.Reflector.known.StartPass()
}

func (l *listing) begin(ctx context.Context) error {
	if l.begun {
		return nil
	}
	l.known.StartPass()
	if l.snapshot() {
		if err := l.sendControl(ctx, change.Control{Type: change.ControlSnapshotBegin, Cause: l.reason}); err != nil {
			return err
		}
	}
	l.begun = true
	return nil
}

func (l *listing) read(ctx context.Context) error {
	if l.streams(ctx) {
		err := l.streamed(ctx)
		if !errors.Is(err, errNotStreamed) || l.Reflector.options.StreamingLists == StreamingOn {
			return err
		}
		l.Reflector.log.Info("reading the list in pages", "reason", err)
		l.failed, l.version, l.objects = 2, "", 0
		l.Reflector.known.StartPass()
	}
	for {
		err := l.page(ctx)
		if apiclient.IsGone(err) {
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

// expired answers a 410 on a page: the list's version is compacted.
func (l *listing) expired(err error) error {
	if next := inconsistentToken(err); next != "" && l.restarts > 0 && l.version != "" {
		l.Reflector.log.Warn("the list goes on at a newer version", "reason", apiclient.Reason(err), "from", l.version, "objects", l.objects)
		l.token, l.until = next, l.version
		return nil
	}
	l.restart()
	return fmt.Errorf("the list expired between two pages, and begins again: %w", err)
}

// inconsistentToken is what a 410 on a continue token offers: to go on after the last key, at the newest version
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks).
func inconsistentToken(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return ""
	}
	return status.Status().ListMeta.Continue
}

// page reads one page.
func (l *listing) page(ctx context.Context) error {
	s, n := l.Reflector, 0
	p, err := s.client.List(ctx, s.stream, apiclient.ListOptions{MetadataOnly: s.options.MetadataOnly, Limit: s.options.PageSize, Continue: l.token}, func(p *apiclient.Page, raw []byte) error {
		if err := l.fresh(p.Version); err != nil {
			return err
		}
		n++
		return l.item(ctx, raw)
	})
	if err == nil {
		err = l.fresh(p.Version)
	}
	if err != nil {
		return err
	}
	s.alive()
	l.objects += n
	if l.version == "" {
		l.version = p.Version
	}
	if l.until != "" {
		l.until = p.Version
	}
	l.token = p.Continue
	s.observer.ListProgress(s.ID(), int64(l.objects), int64(l.objects)+max(p.Remaining, 0))
	return nil
}

// errStale: a list is older than the log. Nothing may be sent from it until it is known why (verifying.go).
var errStale = errors.New("the list is older than the log")

// fresh makes sure that no list takes the log back in time. The server sends the version before the items; were it
// to come after them, the check would come after the page.
func (l *listing) fresh(version change.ResourceVersion) error {
	s := l.Reflector
	if version == "" || l.rewinds || version.Compare(s.position) >= 0 {
		return nil
	}
	return fmt.Errorf("%w: the list has resourceVersion %s, the log %s", errStale, version, s.position)
}

// item emits what one listed object means.
func (l *listing) item(ctx context.Context, raw []byte) error {
	o, err := apiclient.ParseObject(raw)
	if errors.Is(err, apiclient.ErrUnsupported) {
		return err // the list has all of them so, and what it can't tell must not be taken for deleted
	}
	if err != nil {
		return l.Reflector.sendMalformed(ctx, raw, err)
	}
	return l.object(ctx, &o)
}

// object compares with the index. In one history a list never has an older version of an object than the log, so
// another version of the same object is always a change: a newer one, or, after etcd was restored from a backup, an
// older one. (Two histories may give the same resourceVersion to different states of one object. That can't be seen
// here, and takes a write to the same object at the same revision in both.)
func (l *listing) object(ctx context.Context, o *apiclient.Object) error {
	s := l.Reflector
	d := s.known.Compare(o.Key(), o.UID, o.Version)
	if d == known.Same || d == known.Older && l.until != "" {
		s.known.Mark(o.Key())
		return nil
	}
	l.rewound = l.rewound || d == known.Older
	if err := o.Prepare(s.options.Redactor, &s.stream.Resource); err != nil {
		return s.sendMalformed(ctx, o.Raw, err)
	}
	if l.snapshot() && (d == known.Absent || d == known.Lost) {
		return s.send(ctx, s.change(change.Read, o), stays)
	}
	return l.missed(ctx, o, d)
}

// missed emits what the watch did not tell: a creation, an update, or another object under a known name.
func (l *listing) missed(ctx context.Context, o *apiclient.Object, d known.Difference) error {
	s := l.Reflector
	if d.Replaces() {
		if err := s.sendDelete(ctx, o.Key(), l.gapID()); err != nil {
			return err
		}
		l.deleted++
	}
	op, tally := change.Create, &l.created
	if d.Known() {
		op, tally = change.Update, &l.updated
	}
	c := s.change(op, o)
	c.Inferred, c.Gap = true, l.gapID()
	if err := s.send(ctx, c, stays); err != nil {
		return err
	}
	*tally++
	return nil
}

// finish emits the deletions and the record of the list, and moves the position.
func (l *listing) finish(ctx context.Context, version change.ResourceVersion) error {
	s := l.Reflector
	for _, key := range s.known.Unseen() {
		if err := s.sendDelete(ctx, key, l.gapID()); err != nil {
			return err
		}
		l.deleted++
	}
	return s.emit(ctx, Item{Control: l.end(version)}, to(version))
}

// end returns the record of the list; none, if the list is the very state that the log has.
func (l *listing) end(version change.ResourceVersion) *change.Control {
	s := l.Reflector
	switch {
	case l.snapshot():
		return &change.Control{Type: change.ControlSnapshotEnd, Stream: s.ID(), ResourceVersion: version, Objects: &l.objects}
	case l.nothingMissed(version):
		s.log.Info("nothing was missed", "position", version)
		return nil
	}
	g := l.inferred(version)
	s.log.Warn("gap", "from", g.From, "to", g.To, "complete", g.Complete, "inferred", g.Inferred, "reason", g.Reason)
	return &change.Control{Type: change.ControlGap, Stream: s.ID(), ResourceVersion: version, Cause: s.reason, Gap: &g}
}

// nothingMissed reports whether the gap is empty: the server is where the log is, and nothing is different.
func (l *listing) nothingMissed(version change.ResourceVersion) bool {
	return version == l.gap.From && l.created+l.updated+l.deleted == 0 && !l.rewinds
}

// inferred returns the record of a gap that could only be closed by comparison.
func (l *listing) inferred(version change.ResourceVersion) change.Gap {
	g := *l.gap
	g.To, g.Reason = version, "only the difference between two states is known, not what happened between them"
	if l.rewinds || l.rewound {
		g.Reason = "history went backwards: the server was restored from a backup; what differs from the log was sent, also where it is older"
	}
	g.Created, g.Updated, g.Deleted = l.created, l.updated, l.deleted
	g.Inferred = l.created + l.updated + l.deleted
	return g
}

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

// list reads the whole collection and sends what differs from the index: everything, the first time; after a 410,
// what the watch missed. Objects that the index knows and the list does not hold are deleted. Nothing but the index
// is held in memory. After an error the list goes on at the page that failed.
func (s *Reflector) list(ctx context.Context) (State, error) {
	done, err := s.options.Lists.acquire(ctx)
	if err != nil {
		return s.state, err
	}
	defer done()
	if s.listing == nil {
		l := &list{reflector: s, snapshot: s.gap == nil}
		if err := l.begin(ctx); err != nil {
			return s.state, err
		}
		s.listing = l
	}
	l := s.listing
	err = l.read(ctx)
	switch {
	case errors.Is(err, errStale):
		s.listing = nil
		return s.enter(StateVerifying, err.Error()), err
	case err != nil:
		return s.state, fmt.Errorf("list %s: %w", s.ID(), err)
	case l.until != "":
		s.cursor = l.version
		return s.enter(StateWatching, "the list ran from resourceVersion "+l.version+" to "+l.until+": catching up"), nil
	}
	if err := l.finish(ctx, l.version); err != nil {
		return s.state, err
	}
	return s.enter(StateWatching, "listed at resourceVersion "+l.version), nil
}

// list is one list in progress. It lives until the list is complete, over errors and restarts, so that its
// tallies tell all that was sent.
//
// A list of pages is one state of the collection, at the version of its first page, unless the server forgets that
// version before the last page is read. Then the list is restarted; if that happens again, the list is too big to
// ever end that way, and goes on with the inconsistent token that the server offers: the rest of it is newer than
// its beginning. Such a list is complete only when a watch from its first page's version has passed the version of
// its last page: until then the position stays, and no deletion is inferred. What the watch tells on the way are the
// changes themselves, deletions too; what the pages told already is dropped by the index. A key that is then still
// unseen was deleted before the first page. A crash on the way starts again from the old position.
type list struct {
	reflector *Reflector
	snapshot  bool
	token     string // of the next page
	version   string // the list's: of the first page
	until     string // of an inconsistent list: what the watch must pass
	restarts  int
	objects   int // on complete pages

	created, updated, deleted int
	rewound                   bool // an object is older than the log has it
	failed                    int  // attempts to read it as a stream
	older                     bool // the stream has older objects than the log
}

// restart begins again at the first page; tallies stay, since what was sent is in the index.
func (l *list) restart() {
	l.token, l.version, l.until, l.objects = "", "", "", 0
	l.restarts++
	l.reflector.known.StartPass()
}

func (l *list) begin(ctx context.Context) error {
	s := l.reflector
	s.known.StartPass()
	if !l.snapshot {
		return nil
	}
	return s.sendControl(ctx, change.Control{Type: change.ControlSnapshotBegin, Cause: s.reason})
}

func (l *list) read(ctx context.Context) error {
	if l.streams(ctx) {
		err := l.streamed(ctx)
		if !errors.Is(err, errNotStreamed) || l.reflector.options.StreamingLists == StreamingOn {
			return err
		}
		l.reflector.log.Info("reading the list in pages", "reason", err)
		l.failed, l.version, l.objects = 2, "", 0
		l.reflector.known.StartPass()
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
func (l *list) expired(err error) error {
	if next := inconsistentToken(err); next != "" && l.restarts > 0 && l.version != "" {
		l.reflector.log.Warn("the list goes on at a newer version", "reason", apiclient.Reason(err), "from", l.version, "objects", l.objects)
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
func (l *list) page(ctx context.Context) error {
	s, n := l.reflector, 0
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
func (l *list) fresh(version string) error {
	s := l.reflector
	if version == "" || s.rewound || change.CompareVersions(version, s.position) >= 0 {
		return nil
	}
	return fmt.Errorf("%w: the list has resourceVersion %s, the log %s", errStale, version, s.position)
}

// item sends what one listed object means.
func (l *list) item(ctx context.Context, raw []byte) error {
	o, err := apiclient.ParseObject(raw)
	if errors.Is(err, apiclient.ErrUnsupported) {
		return err // the list has all of them so, and what it can't tell must not be taken for deleted
	}
	if err != nil {
		return l.reflector.sendMalformed(ctx, raw, err)
	}
	return l.object(ctx, &o)
}

// object compares with the index. In one history a list never has an older version of an object than the log, so
// another version of the same object is always a change: a newer one, or, after etcd was restored from a backup, an
// older one. (Two histories may give the same resourceVersion to different states of one object. That can't be seen
// here, and takes a write to the same object at the same revision in both.)
func (l *list) object(ctx context.Context, o *apiclient.Object) error {
	s := l.reflector
	d := s.known.Compare(o.Key(), o.UID, o.Version)
	if d == known.Same || d == known.Older && l.until != "" {
		s.known.Mark(o.Key())
		return nil
	}
	l.rewound = l.rewound || d == known.Older
	if err := o.Prepare(s.options.Redactor, &s.stream.Resource); err != nil {
		return s.sendMalformed(ctx, o.Raw, err)
	}
	if l.snapshot && (d == known.Absent || d == known.Lost) {
		return s.send(ctx, s.change(change.Read, o), stays)
	}
	return l.missed(ctx, o, d)
}

// missed sends what the watch did not: a creation, an update, or another object under a known name.
func (l *list) missed(ctx context.Context, o *apiclient.Object, d known.Difference) error {
	s := l.reflector
	if d.Replaces() {
		if err := s.sendDelete(ctx, o.Key(), true); err != nil {
			return err
		}
		l.deleted++
	}
	op, tally := change.Create, &l.created
	if d.Known() {
		op, tally = change.Update, &l.updated
	}
	c := s.change(op, o)
	c.Inferred = true
	if s.gap != nil {
		c.Gap = s.gap.ID
	}
	if err := s.send(ctx, c, stays); err != nil {
		return err
	}
	*tally++
	return nil
}

// caughtUp finishes an inconsistent list once the watch has passed its end.
func (s *Reflector) caughtUp(ctx context.Context) error {
	l := s.listing
	if l == nil || change.CompareVersions(s.cursor, l.until) < 0 {
		return nil
	}
	return l.finish(ctx, s.cursor)
}

// finish sends the deletions, says in the log what the list was, and moves the position.
func (l *list) finish(ctx context.Context, version string) error {
	s := l.reflector
	for _, key := range s.known.Unseen() {
		if err := s.sendDelete(ctx, key, true); err != nil {
			return err
		}
		l.deleted++
	}
	if err := s.emit(ctx, Item{Control: l.end(version)}, to(version)); err != nil {
		return err
	}
	s.listing, s.gap, s.rewound = nil, nil, false
	return nil
}

// end is what the log says of the list: nothing, where it is the very state that the log has.
func (l *list) end(version string) *change.Control {
	s := l.reflector
	switch {
	case s.gap == nil:
		return &change.Control{Type: change.ControlSnapshotEnd, Stream: s.ID(), ResourceVersion: version, Objects: &l.objects}
	case l.nothingMissed(version):
		s.log.Info("nothing was missed", "position", version)
		return nil
	}
	g := l.gap(version)
	s.log.Warn("gap", "from", g.From, "to", g.To, "complete", g.Complete, "inferred", g.Inferred, "reason", g.Reason)
	return &change.Control{Type: change.ControlGap, Stream: s.ID(), ResourceVersion: version, Cause: s.reason, Gap: &g}
}

// nothingMissed reports whether the gap is empty: the server is where the log is, and nothing is different.
func (l *list) nothingMissed(version string) bool {
	s := l.reflector
	return version == s.gap.From && l.created+l.updated+l.deleted == 0 && !s.rewound
}

// gap is the record of what could only be compared.
func (l *list) gap(version string) change.Gap {
	g := *l.reflector.gap
	g.To, g.Reason = version, "only the difference between two states is known, not what happened between them"
	if l.reflector.rewound || l.rewound {
		g.Reason = "history went backwards: the server was restored from a backup; what differs from the log was sent, also where it is older"
	}
	g.Created, g.Updated, g.Deleted = l.created, l.updated, l.deleted
	g.Inferred = l.created + l.updated + l.deleted
	return g
}

package source

import (
	"context"
	"fmt"

	"kubecdc/change"
)

// list reads the whole collection page by page and sends what differs from the index: everything, the first time;
// after a 410, what the watch missed. Objects that the index knows and the list does not hold are deleted.
// Nothing but the index is held in memory.
func (s *Stream) list(ctx context.Context) (State, error) {
	l := &lister{stream: s, snapshot: s.position == ""}
	if l.snapshot {
		if err := s.sendControl(ctx, change.Control{Type: change.ControlSnapshotBegin, Cause: s.reason}, ""); err != nil {
			return s.state, err
		}
	}
	if err := l.pages(ctx); err != nil {
		if isGone(err) {
			return s.enter(StateListing, "the list expired between two pages: "+reasonText(err)), nil
		}
		return s.state, fmt.Errorf("list %s: %w", s.ID(), err)
	}
	for _, key := range s.index.unseen() {
		l.deleted++
		if err := s.sendDelete(ctx, key, true); err != nil {
			return s.state, err
		}
	}
	if err := l.finish(ctx); err != nil {
		return s.state, err
	}
	return s.enter(StateWatching, "listed at resourceVersion "+l.version), nil
}

// lister is one list in progress.
type lister struct {
	stream   *Stream
	snapshot bool
	version  string // the list's
	objects  int

	created, updated, deleted int
}

func (l *lister) pages(ctx context.Context) error {
	s := l.stream
	s.index.startPass()
	token := ""
	for {
		p, err := s.client.listPage(ctx, s.stream, s.options.MetadataOnly, s.options.PageSize, token, func(raw []byte) error {
			return l.item(ctx, raw)
		})
		if err != nil {
			return err
		}
		s.alive()
		l.version = p.version
		s.observer.ListProgress(s.ID(), int64(l.objects), int64(l.objects)+max(p.remaining, 0))
		if token = p.continueToken; token == "" {
			return nil
		}
	}
}

// item sends what one listed object means.
func (l *lister) item(ctx context.Context, raw []byte) error {
	s := l.stream
	l.objects++
	o, err := parseObject(raw)
	if err != nil {
		return s.sendMalformed(ctx, raw, err)
	}
	old, exists := s.index.get(o.key())
	if exists && old.uid == o.uid && !old.newer(o.version) {
		s.index.mark(o.key())
		return nil
	}
	o.raw = o.withType(&s.stream.Resource)
	if l.snapshot && !exists {
		return s.send(ctx, s.change(change.Read, &o), "")
	}
	return l.missed(ctx, &o, old, exists)
}

// missed sends what the watch did not: a creation, an update, or another object under a known name.
func (l *lister) missed(ctx context.Context, o *object, old known, exists bool) error {
	s := l.stream
	if exists && old.uid != o.uid {
		l.deleted++
		if err := s.sendDelete(ctx, o.key(), true); err != nil {
			return err
		}
		exists = false
	}
	op := change.Create
	l.created++
	if exists {
		op = change.Update
		l.created--
		l.updated++
	}
	c := s.change(op, o)
	c.Inferred = true
	if s.gap != nil {
		c.Gap = s.gap.ID
	}
	return s.send(ctx, c, "")
}

// finish moves the position to the list's version, and says in the log what the list was.
func (l *lister) finish(ctx context.Context) error {
	s := l.stream
	if s.gap == nil {
		return s.sendControl(ctx, change.Control{Type: change.ControlSnapshotEnd, ResourceVersion: l.version, Objects: &l.objects}, l.version)
	}
	g := *s.gap
	g.To, g.Reason = l.version, "only the difference between two states is known, not what happened between them"
	g.Created, g.Updated, g.Deleted = l.created, l.updated, l.deleted
	g.Inferred = l.created + l.updated + l.deleted
	s.log.Warn("gap", "from", g.From, "to", g.To, "complete", g.Complete, "inferred", g.Inferred)
	err := s.sendControl(ctx, change.Control{Type: change.ControlGap, ResourceVersion: l.version, Cause: s.reason, Gap: &g}, l.version)
	if err == nil {
		s.gap = nil
	}
	return err
}

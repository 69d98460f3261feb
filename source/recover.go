package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/source/discovery"
	"kubecdc/source/known"
)

// Backfill says how missed revisions are recovered; the budget is shared by all streams of the process.
type Backfill struct {
	Limiter      *rate.Limiter // requests a second
	Parallel     int           // requests at once, of one stream
	MaxRevisions uint64        // a longer gap is only compared
	Claims       *Claims
}

// backfill recovers what the watch missed, change by change, or leaves it to the list (reconcile.go) where the
// server can't tell. Nothing is sent before all is found; from then on the position moves with every change, so a
// crash in the middle leaves a shorter gap and nothing twice.
func (s *Stream) backfill(ctx context.Context) (State, error) {
	started := time.Now()
	b, version, err := s.survey(ctx)
	if errors.Is(err, errNotRecoverable) {
		return s.enter(StateListing, "relist: "+err.Error()), nil
	}
	if apiclient.IsGone(err) {
		return s.enter(StateBackfilling, "the list expired between two pages: "+apiclient.Reason(err)), nil
	}
	if err != nil {
		return s.state, fmt.Errorf("recover %s from resourceVersion %s: %w", s.ID(), s.position, err)
	}
	if b == nil {
		s.gap = nil
		return s.enter(StateWatching, "nothing was missed: the server is at the log's position"), s.confirm(ctx, version)
	}
	plan := b.plan()
	g := *s.gap
	g.To, g.Complete, g.Reason = version, b.reason == "", b.reason
	plan.count(&g)
	g.Requests, g.ElapsedMs = int(b.history.requests.Load()), time.Since(started).Milliseconds()
	s.log.Info("recovered a gap", "from", g.From, "to", g.To, "complete", g.Complete, "reason", g.Reason,
		"recovered", g.Recovered, "inferred", g.Inferred, "requests", g.Requests, "took", time.Since(started).Round(time.Millisecond))
	if err := s.replay(ctx, b, plan, g); err != nil {
		return s.state, err
	}
	if err := s.advance(ctx, version); err != nil {
		return s.state, err
	}
	s.gap = nil
	return s.enter(StateWatching, "recovered up to resourceVersion "+version), nil
}

var errNotRecoverable = errors.New("the missed revisions can't be read")

// survey lists identities only, tells what differs from the index, and finds out how it came to that.
func (s *Stream) survey(ctx context.Context) (*backfill, string, error) {
	var changed []apiclient.Object
	listed, ahead, back := int64(0), false, false
	s.known.StartPass()
	version, err := s.listIdentities(ctx, func(o apiclient.Object) {
		listed++
		old, exists := s.known.Get(o.Key())
		ahead = ahead || exists && change.CompareVersions(old.Version, s.told()) > 0
		d := known.Diff(old, exists, o.UID, o.Version)
		back = back || d == known.Older || d == known.Lost
		if d.Known() {
			s.known.Mark(o.Key())
		}
		if d != known.Same && d != known.Older {
			o.Raw = nil
			changed = append(changed, o)
		}
	})
	if apiclient.IsUnreadable(err) { // a list hands it to the dead letter, or says why it can't
		err = fmt.Errorf("%w: %s", errNotRecoverable, err)
	}
	if err != nil {
		return nil, "", err
	}
	gone := s.known.Unseen()
	from, err1 := strconv.ParseUint(s.told(), 10, 64)
	to, err2 := strconv.ParseUint(version, 10, 64)
	switch {
	case err1 != nil || err2 != nil:
		return nil, "", fmt.Errorf("%w: its resourceVersions are no revisions", errNotRecoverable)
	case back:
		return nil, "", fmt.Errorf("%w: the server has objects that are older than the log has them: its history went back", errNotRecoverable)
	case ahead:
		return nil, "", fmt.Errorf("%w: the log has objects that are newer than its position: an earlier comparison was broken off", errNotRecoverable)
	case to < from:
		return nil, "", fmt.Errorf("%w: the server's history went back from %d to %d", errNotRecoverable, from, to)
	case to == from && len(changed)+len(gone) > 0:
		return nil, "", fmt.Errorf("%w: the server has another state at the log's own position %d", errNotRecoverable, from)
	case to == from:
		return nil, version, nil // nothing was written since
	case to-from > s.options.Backfill.MaxRevisions:
		return nil, "", fmt.Errorf("%w: the gap has %d revisions, more than KUBECDC_BACKFILL_MAX_REVISIONS=%d", errNotRecoverable, to-from, s.options.Backfill.MaxRevisions)
	}
	foreign, err := discovery.Aggregated(ctx, s.client, s.stream.Resource)
	if err != nil {
		return nil, "", err
	}
	o := s.options.Backfill
	b := &backfill{claims: o.Claims, known: s.known, from: from, to: to, listed: listed, parallel: o.Parallel, foreign: foreign,
		lives: map[string][]*life{}, explained: newExplained(from, to, foreign || leased(s.stream.Resource)),
		history: &history{client: s.client, stream: s.stream, metadataOnly: s.options.MetadataOnly, redactor: s.options.Redactor,
			foreign: foreign, limiter: o.Limiter}}
	o.Claims.between(from, to, s.stream, b.explained.add)
	err = b.run(ctx, changed, gone)
	if apiclient.IsInvalid(err) || apiclient.IsRefused(err) || apiclient.IsUnreadable(err) {
		err = fmt.Errorf("%w: %s", errNotRecoverable, apiclient.Reason(err))
	}
	return b, version, err
}

// listIdentities reads the collection, without bodies, as it is now.
func (s *Stream) listIdentities(ctx context.Context, visit func(apiclient.Object)) (version string, err error) {
	token := ""
	for {
		last := version
		p, err := s.client.List(ctx, s.stream, apiclient.ListOptions{MetadataOnly: true, Limit: s.options.PageSize, Continue: token}, func(_ *apiclient.Page, raw []byte) error {
			o, err := apiclient.ParseObject(raw)
			if err == nil {
				visit(o)
			}
			return err
		})
		if err != nil {
			return "", err
		}
		if version = p.Version; last != "" && version != last {
			return "", fmt.Errorf("%w: the pages of one list have the resourceVersions %s and %s", errNotRecoverable, last, version)
		}
		s.alive()
		if token = p.Continue; token == "" {
			return version, nil
		}
	}
}

// recovered is one change of the gap, in the order in which it is sent.
type recovered struct {
	life     *life
	op       change.Op
	version  uint64
	body     []byte
	inferred bool
}

type plan []recovered

// plan puts the changes of all lives in the order of their revisions. Deletions of which the revision is lost come
// first: they happened before anything that can still be read.
func (b *backfill) plan() plan {
	var p plan
	for _, lives := range b.lives {
		for _, l := range lives {
			p = l.changes(p)
		}
	}
	slices.SortStableFunc(p, func(x, y recovered) int { return cmp.Compare(x.version, y.version) })
	return p
}

func (l *life) changes(p plan) plan {
	if l.lost && l.logged {
		return append(p, recovered{life: l, op: change.Delete, inferred: true})
	}
	if !l.logged && len(l.revisions) == 0 {
		return p // nothing of it can be read any more: for the log it never was
	}
	for i := len(l.revisions) - 1; i >= 0; i-- {
		r := l.revisions[i]
		c := recovered{life: l, op: change.Update, version: r.version, body: r.body}
		if oldest := i == len(l.revisions)-1; oldest && !l.logged {
			c.op = change.Create
			c.inferred = l.born == 0 // it is not the creation itself, only the oldest state that can still be read
		}
		p = append(p, c)
	}
	if l.died != 0 {
		p = append(p, recovered{life: l, op: change.Delete, version: l.died})
	}
	return p
}

func (p plan) count(g *change.Gap) {
	g.Created, g.Updated, g.Deleted, g.Inferred, g.Recovered = 0, 0, 0, 0, 0
	for _, c := range p {
		switch c.op {
		case change.Create:
			g.Created++
		case change.Update:
			g.Updated++
		case change.Delete:
			g.Deleted++
		}
		if c.inferred {
			g.Inferred++
		} else {
			g.Recovered++
		}
	}
}

// replay sends the gap record and then the changes, as if they had been seen live. The record comes first, so that
// no position ever moves across a gap that the log does not tell of.
func (s *Stream) replay(ctx context.Context, b *backfill, p plan, g change.Gap) error {
	err := s.sendControl(ctx, change.Control{Type: change.ControlGap, ResourceVersion: g.To, Cause: s.reason, Gap: &g}, "")
	for i := range p {
		if err != nil {
			return err
		}
		err = s.replayOne(ctx, b, &p[i])
		p[i].body = nil
	}
	return err
}

func (s *Stream) replayOne(ctx context.Context, b *backfill, r *recovered) error {
	if r.op == change.Delete && r.inferred {
		return s.sendDelete(ctx, r.life.key, true)
	}
	version := strconv.FormatUint(r.version, 10)
	namespace, name := change.SplitKey(r.life.key)
	o := apiclient.Object{Namespace: namespace, Name: name, UID: r.life.uid, Version: version, Raw: r.body}
	if r.op != change.Delete && r.body == nil {
		read, exists, err := b.history.objectAt(ctx, r.life.key, r.version)
		if err != nil {
			return err
		}
		if !exists {
			return fmt.Errorf("read %s again at revision %s: it is not there", r.life.key, version)
		}
		o.Raw = read.Raw
	}
	c := s.change(r.op, &o)
	c.Inferred, c.Gap = r.inferred, s.gap.ID
	return s.send(ctx, c, s.passed(r.op, version))
}

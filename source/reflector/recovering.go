package reflector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/source/discovery"
	"kubecdc/source/known"
	"kubecdc/source/recovery"
)

// Recovery says how missed revisions are recovered. All streams of a process share the limiter and what they learn.
type Recovery struct {
	Parallel     int    // requests at once, of one stream
	MaxRevisions uint64 // a longer gap is only compared
	limiter      *recovery.Limiter
	shared       recovery.SharedRevisions
}

// NewRecovery begins each recovery with start requests a second, and goes up to most.
func NewRecovery(start, most float64, log *slog.Logger) *Recovery {
	return &Recovery{limiter: recovery.NewLimiter(start, most, log)}
}

// recovering recovers what the watch missed, change by change, or leaves it to the list (listing.go) if the server can't
// tell. It emits nothing before it has found everything. From then on the position moves with every change, so a crash in
// the middle leaves a shorter gap and emits nothing twice.
type recovering struct {
	*Reflector
	gap *change.Gap
}

func (s *recovering) name() State { return StateBackfilling }

func (s *recovering) step(ctx context.Context) (state, error) {
	started := time.Now()
	gap, version, err := s.survey(ctx)
	if err == nil && gap == nil {
		return s.enter(s.watch(nil), "nothing was missed: the server is at the log's position"), s.confirm(ctx, to(version))
	}
	var history *recovery.ExactReads
	var plan recovery.Plan
	incomplete := ""
	if err == nil {
		history = s.history(gap.Aggregated)
		plan, incomplete, err = recovery.Recover(ctx, history, s.known, *gap)
		if apiclient.IsInvalid(err) || apiclient.IsRefused(err) || apiclient.IsUnreadable(err) {
			err = fmt.Errorf("%w: %s", recovery.ErrNotPossible, apiclient.Reason(err))
		}
	}
	switch {
	case errors.Is(err, recovery.ErrNotPossible):
		return s.enter(s.list(s.gap), "relist: "+err.Error()), nil
	case apiclient.IsGone(err):
		return s.enter(s, "the list expired between two pages: "+apiclient.Reason(err)), nil
	case err != nil:
		return s, fmt.Errorf("recover %s from resourceVersion %s: %w", s.ID(), s.position, err)
	}
	g := *s.gap
	g.To, g.Complete, g.Reason = version, incomplete == "", incomplete
	plan.Count(&g)
	g.Requests, g.ElapsedMs = history.Requests(), time.Since(started).Milliseconds()
	s.log.Info("recovered a gap", "from", g.From, "to", g.To, "complete", g.Complete, "reason", g.Reason,
		"recovered", g.Recovered, "inferred", g.Inferred, "requests", g.Requests, "took", time.Since(started).Round(time.Millisecond))
	if err := s.replay(ctx, history, plan, g); err != nil {
		return s, err
	}
	if err := s.advance(ctx, to(version)); err != nil {
		return s, err
	}
	return s.enter(s.watch(nil), "recovered up to resourceVersion "+string(version)), nil
}

// history reads the past of the stream's collection.
func (s *Reflector) history(aggregated bool) *recovery.ExactReads {
	return recovery.NewExactReads(s.client, s.stream, s.options.MetadataOnly, s.options.Redactor, aggregated, s.options.Recovery.limiter)
}

// survey lists identities and returns the gap between the log and the list, which is of version; nil if there is none.
func (s *Reflector) survey(ctx context.Context) (gap *recovery.Gap, version change.ResourceVersion, err error) {
	gap = &recovery.Gap{Leased: leased(s.stream.Resource), Namespaced: s.stream.Resource.Namespaced && s.stream.Namespace == "",
		Parallel: s.options.Recovery.Parallel, Shared: s.options.Recovery.shared.Of(s.stream)}
	ahead, back := false, false
	s.known.StartPass()
	version, err = s.listIdentities(ctx, s.options.Recovery.limiter, func(o apiclient.Object) {
		gap.Listed++
		old, exists := s.known.Get(o.Key())
		ahead = ahead || exists && old.Version.Compare(s.told()) > 0
		d := known.Diff(old, exists, o.UID, o.Version)
		back = back || d == known.Older || d == known.Lost
		if d.Known() {
			s.known.Mark(o.Key())
		}
		if d != known.Same && d != known.Older {
			o.Raw = nil
			gap.Changed = append(gap.Changed, o)
		}
	})
	if apiclient.IsUnreadable(err) { // a list hands it to the dead letter, or says why it can't
		err = fmt.Errorf("%w: %s", recovery.ErrNotPossible, err)
	}
	if err != nil {
		return nil, "", err
	}
	gap.Missing = s.known.Unseen()
	if err = s.bound(gap, version, back, ahead); err != nil {
		return nil, "", err
	}
	if gap.From == gap.To {
		return nil, version, nil // nothing was written since
	}
	gap.Aggregated, err = discovery.Aggregated(ctx, s.client, s.stream.Resource)
	return gap, version, err
}

// bound sets the ends of the gap, and returns an error if it can't be recovered.
func (s *Reflector) bound(gap *recovery.Gap, version change.ResourceVersion, back, ahead bool) error {
	from, err1 := s.told().Revision()
	to, err2 := version.Revision()
	switch {
	case err1 != nil || err2 != nil:
		return fmt.Errorf("%w: its resourceVersions are no revisions", recovery.ErrNotPossible)
	case back:
		return fmt.Errorf("%w: the server has objects that are older than the log has them: its history went back", recovery.ErrNotPossible)
	case ahead:
		return fmt.Errorf("%w: the log has objects that are newer than its position: an earlier comparison was broken off", recovery.ErrNotPossible)
	case to < from:
		return fmt.Errorf("%w: the server's history went back from %d to %d", recovery.ErrNotPossible, from, to)
	case to == from && len(gap.Changed)+len(gap.Missing) > 0:
		return fmt.Errorf("%w: the server has another state at the log's own position %d", recovery.ErrNotPossible, from)
	case to-from > s.options.Recovery.MaxRevisions:
		return fmt.Errorf("%w: the gap has %d revisions, more than KUBECDC_BACKFILL_MAX_REVISIONS=%d", recovery.ErrNotPossible, to-from, s.options.Recovery.MaxRevisions)
	}
	gap.From, gap.To = from, to
	return nil
}

// listIdentities reads the collection, without bodies, as it is now. With a limiter, each request waits until that admits it.
func (s *Reflector) listIdentities(ctx context.Context, limiter *recovery.Limiter, visit func(apiclient.Object)) (version change.ResourceVersion, err error) {
	token := ""
	for {
		last := version
		var p apiclient.Page
		err := limiter.Do(ctx, false, func() (err error) {
			p, err = s.client.List(ctx, s.stream, apiclient.ListOptions{MetadataOnly: true, Limit: s.options.PageSize, Continue: token}, func(_ *apiclient.Page, raw []byte) error {
				o, err := apiclient.ParseObject(raw)
				if err == nil {
					visit(o)
				}
				return err
			})
			return err
		})
		if err != nil {
			return "", err
		}
		if version = p.Version; last != "" && version != last {
			return "", fmt.Errorf("%w: the pages of one list have the resourceVersions %s and %s", recovery.ErrNotPossible, last, version)
		}
		s.alive()
		if token = p.Continue; token == "" {
			return version, nil
		}
	}
}

// replay sends the gap record and then the changes, as if they had been seen live. The record comes first, so no position
// ever moves across a gap that the log does not tell of.
func (s *recovering) replay(ctx context.Context, history recovery.History, p recovery.Plan, g change.Gap) error {
	err := s.sendControl(ctx, change.Control{Type: change.ControlGap, ResourceVersion: g.To, Cause: s.reason, Gap: &g})
	for i := range p {
		if err != nil {
			return err
		}
		err = s.replayOne(ctx, history, &p[i])
		p[i].Body = nil
	}
	return err
}

func (s *recovering) replayOne(ctx context.Context, history recovery.History, r *recovery.Change) error {
	if r.Op == change.Delete && r.Inferred {
		return s.sendDelete(ctx, r.Key, s.gap.ID)
	}
	version := change.VersionOf(r.Version)
	namespace, name := change.SplitKey(r.Key)
	o := apiclient.Object{Namespace: namespace, Name: name, UID: r.UID, Version: version, Raw: r.Body}
	if r.Op != change.Delete && r.Body == nil {
		read, exists, err := history.Object(ctx, r.Key, r.Version)
		if err != nil {
			return err
		}
		if !exists {
			return fmt.Errorf("read %s again at revision %s: it is not there", r.Key, version)
		}
		o.Raw = read.Raw
	}
	c := s.change(r.Op, &o)
	c.Inferred, c.Gap = r.Inferred, s.gap.ID
	return s.send(ctx, c, to(s.passed(r.Op, version)))
}

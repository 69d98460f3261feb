package reflector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/source/apiclient"
	"kubecdc/source/discovery"
	"kubecdc/source/known"
	"kubecdc/source/recovery"
)

// Recovery has the settings of recoveries, and what all streams of a process share: the limiter and the coordinator.
type Recovery struct {
	Parallel     int    // concurrent requests of one stream
	MaxRevisions uint64 // a gap of more revisions is closed by comparing a list
	BodyBytes    int64  // recovery.Gap has it
	limiter      *recovery.Limiter
	coordinator  *recovery.Coordinator
	served       atomic.Pointer[[]*change.Stream]
}

// NewRecovery paces recoveries: each begins with start requests a second, and may reach most.
func NewRecovery(start, most float64, log *slog.Logger) *Recovery {
	return &Recovery{limiter: recovery.NewLimiter(start, most, log), coordinator: recovery.NewCoordinator(log)}
}

// limit makes a request that reads one object when the limiter admits it.
func (r *Recovery) limit(ctx context.Context, request func() error) error {
	if r == nil {
		return request()
	}
	return r.limiter.Do(ctx, true, request)
}

// SetServed tells what the API server serves: what no stream exports explains revisions by its metadata (recovery.Witness).
func (r *Recovery) SetServed(served []change.Resource) {
	if r == nil {
		return
	}
	var all []*change.Stream
	for _, resource := range served {
		if !unasked(resource) {
			all = append(all, change.NewStream(resource, "", "", ""))
		}
		if resource.ID() == recovery.MostWritten {
			all[0], all[len(all)-1] = all[len(all)-1], all[0]
		}
	}
	r.served.Store(&all)
}

// recovering recovers what the watch missed, change by change. If that is not possible, a list closes the gap (listing.go). It
// emits nothing before it has found everything. From then on the position moves with every change, so after a crash the gap is
// shorter and nothing is emitted twice.
type recovering struct {
	*Reflector
	gap     *change.Gap
	refused bool   // the reads of the last try were refused, after a list that was not
	found   *found // nil: it is not known yet what was missed
}

func (r *recovering) name() change.StreamState { return change.StateBackfilling }

func (r *recovering) step(ctx context.Context) (state, error) {
	started := time.Now()
	if reason, _ := r.otherHistory(ctx); reason != "" && r.renewClient() {
		if _, same := r.otherHistory(ctx); !same {
			return r.foundRestore(ctx, r.gap, reason)
		}
	}
	if r.found == nil {
		f, err := r.find(ctx)
		switch {
		case errors.Is(err, recovery.ErrNotPossible):
			return r.enter(r.list(r.gap), "relist: "+err.Error()), nil
		case apiclient.IsGone(err):
			return r.enter(r, "the list expired between two pages: "+apiclient.Reason(err)), nil
		case err != nil:
			return r, r.failed(err, "recover %s from resourceVersion %s", r.ID(), r.position)
		case f.history == nil:
			return r.enter(r.watch(nil), "nothing was missed: the server is at the log's position"), r.confirm(ctx, to(f.version))
		}
		r.record(&f, time.Since(started))
	}
	err := r.uninterrupted(func() error { return r.replay(ctx, r.found) })
	switch {
	case err == nil:
		return r.enter(r.watch(nil), "recovered up to resourceVersion "+string(r.found.version)), nil
	case errors.Is(err, recovery.ErrNotPossible):
		return r.enter(r.list(r.gapFrom(r.position)), "relist: "+err.Error()), nil
	case recovery.IsLost(err) || apiclient.IsRefused(err): // compacted, or served in another version since it was found
		r.found, r.gap = nil, r.gapFrom(r.position)
	}
	return r, err
}

// record makes the record of the gap.
func (r *recovering) record(f *found, took time.Duration) {
	g := *r.gap
	g.To, g.Complete, g.Reason = f.version, f.incomplete == "", f.incomplete
	f.plan.Count(&g)
	g.Requests, g.ElapsedMs = f.history.Requests(), took.Milliseconds()
	r.log.Info("recovered a gap", "from", g.From, "to", g.To, "complete", g.Complete, "reason", g.Reason,
		"recovered", g.Recovered, "inferred", g.Inferred, "requests", g.Requests, "took", took.Round(time.Millisecond))
	f.gap, r.found = g, f
}

// found has the changes that were found, and how far they were emitted.
type found struct {
	version    change.ResourceVersion // its end
	history    *recovery.ExactReads   // nil: nothing was written in it
	plan       recovery.Plan
	incomplete string // what the plan lacks, or empty

	gap      change.Gap // its record
	recorded bool       // the record was emitted
	emitted  int        // how many changes of the plan were emitted
}

// find finds the changes of the gap. Other recoveries may wait for this one until it returns.
func (r *recovering) find(ctx context.Context) (f found, err error) {
	r.participant.Begin()
	defer r.participant.End()
	aggregated, err := r.aggregated(ctx, r.stream.Resource)
	if err != nil {
		return f, err
	}
	if r.participant.HasCompany() {
		r.meet(ctx, aggregated)
	}
	gap, version, err := r.findGap(ctx)
	if err == nil {
		err = r.client.SameCluster(ctx)
	}
	f.version = version
	r.refused = r.refused && !apiclient.IsRefused(err)
	if err != nil || gap == nil {
		return f, err
	}
	gap.Kind.Aggregated = aggregated
	f.history = r.history(aggregated)
	f.history.Failed = r.participant.Failed
	gap.Report = func(done, total int) {
		r.participant.Progress(done, total, f.history.Requests())
		r.observer.RecoveryProgress(r.ID(), done, total, f.history.Requests())
	}
	gap.Witnesses = func(mayAsk func(*change.Stream, bool) bool) []recovery.Witness { return r.witnesses(f.history, mayAsk) }
	if r.stream.Namespace != "" && !unasked(r.stream.Resource) {
		gap.AllNamespaces = f.history.ForWitness(change.NewStream(r.stream.Resource, "", "", ""))
	}
	f.plan, f.incomplete, err = recovery.Recover(ctx, f.history, r.known, *gap)
	if err == nil {
		err = f.history.SameCluster(ctx)
	}
	refused := apiclient.IsRefused(err)
	if apiclient.IsInvalid(err) || refused && r.refused || apiclient.IsUnreadable(err) {
		err = fmt.Errorf("%w: %s", recovery.ErrNotPossible, apiclient.Reason(err))
	}
	r.refused = refused
	return f, err
}

func (r *recovering) aggregated(ctx context.Context, resource change.Resource) (bool, error) {
	if aggregated, known := discovery.KnownAggregated(r.client, resource); known {
		return aggregated, nil
	}
	return r.options.Recovery.coordinator.Aggregated(ctx, resource,
		func(ctx context.Context) (func(change.Resource) bool, error) {
			return discovery.AllAggregated(ctx, r.client)
		})
}

// meet finds out which other resources' streams can help this one. It gives them what the log knows of the time before the gap,
// since their gaps may begin earlier.
func (r *recovering) meet(ctx context.Context, aggregated bool) {
	otherEtcd, err := r.hasOtherEtcd(ctx, r.stream, aggregated)
	if err != nil {
		r.log.Debug("it is not known which resources are in one etcd; what other streams find does not help", "error", err)
	}
	r.participant.SetStore(!aggregated, otherEtcd)
	from, _ := r.newestEmitted().Revision()
	for key := range r.known.All() {
		k, _ := r.known.Get(key)
		if version, err := k.Version.Revision(); err == nil && version <= from && version+writesBefore > from {
			r.participant.Wrote(k.Version)
		}
	}
}

// hasOtherEtcd reports whether the resource of a stream is certainly stored in another etcd than Events.
func (r *recovering) hasOtherEtcd(ctx context.Context, s *change.Stream, aggregated bool) (bool, error) {
	overrides, err := r.options.Recovery.coordinator.Overrides(ctx, r.client.EtcdOverrides)
	if err != nil || overrides != 1 || aggregated || leased(s.Resource) {
		return false, err
	}
	return r.areInTwoEtcds(ctx, s, allEvents)
}

// unasked reports a resource that is read only if it is exported, since an attempt to list Secrets would raise suspicion.
func unasked(resource change.Resource) bool { return resource.ID() == "secrets" }

// witnesses are the resources that are served and may be asked.
func (r *recovering) witnesses(history *recovery.ExactReads, mayAsk func(*change.Stream, bool) bool) (all []recovery.Witness) {
	served := r.options.Recovery.served.Load()
	if served == nil {
		return nil
	}
	for _, s := range *served {
		if !mayAsk(s, leased(s.Resource)) {
			continue
		}
		all = append(all, recovery.Witness{Stream: s, Leased: leased(s.Resource), History: history.ForWitness(s),
			Store: func(ctx context.Context) (local, otherEtcd bool, err error) {
				aggregated, err := r.aggregated(ctx, s.Resource)
				if err == nil {
					otherEtcd, err = r.hasOtherEtcd(ctx, s, aggregated)
				}
				return !aggregated, otherEtcd, err
			}})
	}
	return all
}

// allEvents is where Events are. A cluster with two etcds most often has them in the second.
var allEvents = change.NewStream(change.Resource{Version: "v1", Plural: "events", Namespaced: true}, "", "", "")

// writesBefore is how many revisions before its gap a stream's known writes begin. The positions of other streams may be older,
// by as much as the server wrote since its last bookmarks to them.
const writesBefore = 100_000

// history returns the past of the stream's collection. Before anything follows from what it reads, call its SameCluster.
func (r *Reflector) history(aggregated bool) *recovery.ExactReads {
	o := &r.options
	return recovery.NewExactReads(r.client.Loosely(), r.stream, o.MetadataOnly, o.Redactor, aggregated, o.Recovery.limiter,
		r.pace)
}

// findGap lists identities and returns the gap between the log and the list, and the list's version. The gap is nil if nothing
// was written since the log's position.
func (r *recovering) findGap(ctx context.Context) (gap *recovery.Gap, version change.ResourceVersion, err error) {
	until := r.participant.CommonEnd(r.newestEmitted())
	gap, version, err = r.compareAt(ctx, until)
	if until != 0 && recovery.IsLost(err) {
		gap, version, err = r.compareAt(ctx, 0)
	}
	if err != nil || gap.From == gap.To { // nothing was written since
		return nil, version, err
	}
	r.participant.Listed(gap.To, len(gap.Changed)+len(gap.Missing))
	return gap, version, nil
}

// compareAt compares the log with the collection as it was at a revision, or as it is now if revision is 0.
func (r *recovering) compareAt(ctx context.Context, revision uint64) (gap *recovery.Gap, version change.ResourceVersion,
	err error) {
	gap = &recovery.Gap{ListedIn: map[string]int64{}, Namespaced: r.stream.Resource.Namespaced && r.stream.Namespace == "",
		Parallel: r.options.Recovery.Parallel, Participant: r.participant, BodyBytes: r.options.Recovery.BodyBytes,
		Kind: recovery.Kind{Several: leased(r.stream.Resource), Selected: r.stream.LabelSelector != "" ||
			r.stream.FieldSelector != ""}}
	back := false
	visit := func(o apiclient.Object) {
		gap.Listed++
		gap.ListedIn[o.Namespace]++
		d := r.known.CompareListed(o.Key(), o.UID, o.Version)
		back = back || r.contradicts(&o, d)
		if d.Known() && d != known.Same {
			r.known.Mark(o.Key())
		}
		if d != known.Same && d != known.Older {
			o.Raw = nil
			gap.Changed = append(gap.Changed, o)
		}
	}
	r.known.StartPass()
	if revision == 0 {
		version, err = r.listIdentities(ctx, r.options.Recovery.limiter, visit)
	} else {
		version = change.VersionOf(revision)
		err = r.history(false).Names(ctx, "", revision, func(o apiclient.Object) error { visit(o); return nil })
	}
	// listing.go sends it to the dead letter, or reports why it can't
	if apiclient.IsUnreadable(err) && !errors.Is(err, errNoList) {
		err = fmt.Errorf("%w: %s", recovery.ErrNotPossible, err)
	}
	if err != nil {
		return gap, "", err
	}
	gap.Missing = r.known.Unseen()
	return gap, version, r.setBounds(gap, version, back)
}

// setBounds sets the revisions between which the gap is, or returns an error if the gap can't be recovered. back says that the
// list has an object that contradicts the log.
func (r *Reflector) setBounds(gap *recovery.Gap, version change.ResourceVersion, back bool) error {
	from, err1 := r.newestEmitted().Revision()
	to, err2 := version.Revision()
	switch {
	case err1 != nil || err2 != nil:
		return fmt.Errorf("%w: its resourceVersions are no revisions", recovery.ErrNotPossible)
	case back:
		return fmt.Errorf("%w: the server has objects that the log has at a newer version, or lacks: its history went back",
			recovery.ErrNotPossible)
	case r.ahead != "":
		return fmt.Errorf("%w: the log has objects that are newer than its position: an earlier comparison was interrupted",
			recovery.ErrNotPossible)
	case to < from:
		return fmt.Errorf("%w: the server's history went back from %d to %d", recovery.ErrNotPossible, from, to)
	case to == from && len(gap.Changed)+len(gap.Missing) > 0:
		return fmt.Errorf("%w: the server has another state at the log's own position %d", recovery.ErrNotPossible, from)
	case to-from > r.options.Recovery.MaxRevisions:
		return fmt.Errorf("%w: the gap has %d revisions, more than KUBECDC_BACKFILL_MAX_REVISIONS=%d", recovery.ErrNotPossible,
			to-from,
			r.options.Recovery.MaxRevisions)
	}
	gap.From, gap.To = from, to
	return nil
}

// errNoList reports an answer that is no list, as a proxy may give one. It may pass.
var errNoList = errors.New("the answer is no list")

// listIdentities lists the metadata of the collection. Each request waits for the limiter, unless that is nil.
func (r *Reflector) listIdentities(ctx context.Context, limiter *recovery.Limiter,
	visit func(apiclient.Object)) (version change.ResourceVersion, err error) {
	options := apiclient.ListOptions{Pace: r.pace}
	for {
		var unreadable error
		admit := func(request func() error) error { return limiter.Do(ctx, false, request) }
		p, err := r.client.IdentityPage(ctx, r.stream, options, admit,
			func(_ *apiclient.Page, o *apiclient.Object, err error) error {
				if apiclient.IsUnloggable(o, err) {
					err = nil // a recovery finds its changes, too
				}
				if unreadable = err; err == nil {
					visit(*o)
				}
				return err
			})
		switch {
		case errors.Is(err, apiclient.ErrNotExact):
			return "", fmt.Errorf("%w: the pages of one list have several resourceVersions: %w", recovery.ErrNotPossible, err)
		case unreadable == nil && errors.Is(err, rawjson.ErrMalformed):
			return "", fmt.Errorf("%w: %w", errNoList, err)
		case err != nil:
			return "", err
		}
		r.resetBackoff()
		r.participant.Answered()
		if options.Continue, options.Exact = p.Continue, p.Version; options.Continue == "" {
			return p.Version, nil
		}
	}
}

// replay emits the gap record and then the changes, as if a watch had delivered them. The record comes first, so no position
// moves past a gap before the log has its record. After a failed read, the next step goes on.
func (r *recovering) replay(ctx context.Context, f *found) error {
	if !f.recorded {
		if err := r.sendControl(ctx, change.GapControl(r.ID(), f.gap.To, f.gap, r.reason)); err != nil {
			return err
		}
		f.recorded = true
	}
	for ; f.emitted < len(f.plan); f.emitted++ {
		c := &f.plan[f.emitted]
		if err := r.replayOne(ctx, f.history, c); err != nil {
			return err
		}
		c.Body = nil
	}
	return r.advance(ctx, to(f.version))
}

func (r *recovering) replayOne(ctx context.Context, history recovery.History, c *recovery.Change) error {
	version := change.VersionOf(c.Version)
	namespace, name := change.SplitKey(c.Key)
	o := apiclient.Object{Namespace: namespace, Name: name, UID: c.UID, Version: version, Raw: c.Body}
	if c.Op == change.Delete && c.Inferred && !apiclient.IsUnloggable(&o, o.Check()) {
		return r.sendDelete(ctx, c.Key, r.gap.ID, move{})
	}
	if c.Op != change.Delete && c.Body == nil {
		var err error
		if o.Raw, err = readAgain(ctx, history, c); err != nil {
			return err
		}
	}
	if err := o.Check(); err != nil {
		return r.sendUnloggable(ctx, &o, err)
	}
	emitted := r.newChange(c.Op, &o)
	emitted.Inferred, emitted.Gap = c.Inferred, r.gap.ID
	return r.send(ctx, emitted, to(r.positionAfter(c.Op, version)))
}

// readAgain reads a state that the plan does not hold. If the server has compacted the revision that wrote the state, it may
// still have later revisions with the same state. An object that a selector selects may have left the collection in between.
func readAgain(ctx context.Context, history recovery.History, c *recovery.Change) (body []byte, err error) {
	version := change.VersionOf(c.Version)
	for _, revision := range []uint64{c.Until, c.Version} {
		o, exists, err := history.Object(ctx, c.Key, revision)
		if err != nil || exists && o.UID == c.UID && o.Version == version {
			return o.Raw, err
		}
	}
	return nil, fmt.Errorf("%w: %s can't be read again as revision %s wrote it", recovery.ErrNotPossible, c.Key, version)
}

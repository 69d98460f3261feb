package export

import (
	"context"
	"sync"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/source/discovery"
	"kubecdc/source/reflector"
)

// streams runs the streams of one slot for one session, and follows the selection.
type streams struct {
	slot           *slot
	queue          *batching.Queue
	reads          *readTracker
	rules          *storedRules
	fail           context.CancelCauseFunc // ends the session
	running        map[change.StreamID]*reflector.Reflector
	unselected     map[change.StreamID]change.Position    // whose fate is not known yet (unselected.go); nil until they are loaded
	removalUnknown map[change.StreamID]string             // why it is unknown whether a stream's resource was removed, as last reported
	refused        map[change.StreamID]change.Resource    // paused, since the sink refuses their records (refusals.go)
	paused         map[change.StreamID]*checkpoint.Signal // by users (pausing.go)
	stops          map[change.StreamID]stop               // of the running streams
	open           []checkpoint.Signal                    // the open signals, when they were last read
	jobs           map[int64]*signalJob                   // those that were begun (signals.go)
	newest         *discovery.Selection
	wg             sync.WaitGroup
}

func newStreams(s *slot, q *batching.Queue, r *readTracker, rules *storedRules, fail context.CancelCauseFunc) *streams {
	return &streams{slot: s, queue: q, reads: r, rules: rules, fail: fail, running: map[change.StreamID]*reflector.Reflector{},
		removalUnknown: map[change.StreamID]string{}, refused: map[change.StreamID]change.Resource{},
		paused: map[change.StreamID]*checkpoint.Signal{}, stops: map[change.StreamID]stop{}, jobs: map[int64]*signalJob{}}
}

// stop stops a running stream.
type stop struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // is closed when it has stopped
}

// run follows the selection until the context ends, and returns when every stream has stopped.
func (st *streams) run(ctx context.Context) {
	selections, unsubscribe := st.slot.selections.subscribe()
	defer unsubscribe()
	signals := time.NewTicker(signalInterval)
	defer signals.Stop()
	if err := st.loadPaused(ctx); err != nil {
		st.fail(err)
		return
	}
	for {
		var err error
		select {
		case selection := <-selections:
			st.newest = &selection
			err = st.apply(ctx, selection)
		case <-st.slot.refusals.due():
			err = st.probeRefusals(ctx)
		case <-signals.C:
			err = st.followSignals(ctx)
		case <-ctx.Done():
			st.wg.Wait()
			st.reportRemoved()
			return
		}
		if err != nil && ctx.Err() == nil {
			st.fail(err)
		}
	}
}

func (st *streams) reportRemoved() {
	for id := range st.running {
		st.slot.parts.Observer.StreamRemoved(id)
	}
	for id := range st.unselected {
		st.slot.parts.Observer.StreamRemoved(id)
	}
	for id := range st.refused {
		st.slot.parts.Observer.StreamRemoved(id)
	}
	for id := range st.paused {
		st.slot.parts.Observer.StreamRemoved(id)
	}
}

// apply starts new streams, updates the running ones with what the API server serves now, and ends unselected ones.
func (st *streams) apply(ctx context.Context, selection discovery.Selection) error {
	if err := st.refuseOverlaps(ctx, selection); err != nil {
		return err
	}
	selected := map[change.StreamID]bool{}
	for _, r := range selection.Resources {
		for _, s := range st.slot.config.StreamsOf(r) {
			if !st.slot.owns(s.ID()) {
				continue
			}
			selected[s.ID()] = true
			running, refused := st.running[s.ID()], st.slot.refusals.of(r)
			switch {
			case running != nil:
				running.SetResource(&s.Resource)
			case st.paused[s.ID()] != nil:
				st.leavePaused(s.ID())
			case refused != nil:
				if err := st.pause(ctx, s, refused); err != nil {
					return err
				}
			default:
				st.start(ctx, st.add(s))
			}
			st.setRemovalUnknown(s.ID(), selection.Doubt(r))
		}
	}
	for id, running := range st.running {
		if !selected[id] && !selection.Unsure[running.Group()] {
			running.SetResource(nil)
			st.setRemovalUnknown(id, nil)
		}
	}
	st.slot.parts.Observer.StreamsKnown(st.slot.number)
	return st.endUnselected(ctx, selection, selected)
}

// add makes a stream's reflector.
func (st *streams) add(s *change.Stream) *reflector.Reflector {
	parts := st.slot.parts
	options := st.slot.config.Source
	options.MetadataOnly, options.Redactor = st.slot.config.MetadataOnly(s.Resource), st.slot.config.Redactor(s.Resource)
	options.Masked, options.Restores = st.slot.config.LeavesOut(s.Resource), restores{st}
	if config := &st.slot.config; config.Before && !config.Content.NoUpdates && !options.MetadataOnly {
		options.Stored = func(ctx context.Context, keys []string, visit func(key string, body []byte)) error {
			return st.storedBodies(ctx, s.ID(), keys, visit)
		}
	}
	parts.Observer.StreamAdded(s.ID())
	running := reflector.New(s, parts.Server.Client(), options, st.reads, st.queue, parts.Observer, parts.Logger)
	st.running[s.ID()] = running
	for _, g := range st.open {
		if g.Kind == change.SignalRestore && g.Stream == s.ID() {
			tellRestore(running, g)
		}
	}
	parts.Observer.StreamObjects(st.slot.number, s.ID(), running.Objects)
	return running
}

func (st *streams) start(ctx context.Context, r *reflector.Reflector) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	st.stops[r.ID()] = stop{ctx, cancel, done}
	st.wg.Go(func() {
		defer close(done)
		defer cancel()
		err := st.rules.apply(ctx, r.ID())
		if err == nil {
			err = r.Run(ctx)
		}
		if err != nil && ctx.Err() == nil {
			st.fail(err)
		}
	})
}

// StreamsOf returns the streams of a resource: one, or one per namespace. If only some namespaces are exported, a
// cluster-scoped resource has no stream.
func (c *Config) StreamsOf(r change.Resource) (all []*change.Stream) {
	if len(c.Namespaces) == 0 {
		return []*change.Stream{change.NewStream(r, "", c.LabelSelector, c.FieldSelector)}
	}
	if !r.Namespaced {
		return nil
	}
	for _, ns := range c.Namespaces {
		all = append(all, change.NewStream(r, ns, c.LabelSelector, c.FieldSelector))
	}
	return all
}

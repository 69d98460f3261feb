package export

import (
	"context"
	"errors"
	"sync"

	"kubecdc/change"
	"kubecdc/export/batching"
	"kubecdc/export/ownership"
	"kubecdc/source/discovery"
	"kubecdc/source/reflector"
)

// streams runs the streams of one slot for one session, and starts new ones as discovery finds them.
type streams struct {
	slot       *slot
	queue      *batching.Queue
	reads      *reads
	redactions *redactions
	fail       context.CancelCauseFunc
	running    map[change.StreamID]*reflector.Reflector
	orphans    map[change.StreamID]change.Position // not settled yet (orphans.go); nil: not read yet
	doubts     map[change.StreamID]string          // what is said of streams now
	refused    map[change.StreamID]change.Resource // streams that are not read while the sink refuses their records (refusals.go)
	newest     *discovery.Selection
	wg         sync.WaitGroup
}

func newStreams(s *slot, q *batching.Queue, r *reads, c *redactions, fail context.CancelCauseFunc) *streams {
	return &streams{slot: s, queue: q, reads: r, redactions: c, fail: fail, running: map[change.StreamID]*reflector.Reflector{}, doubts: map[change.StreamID]string{},
		refused: map[change.StreamID]change.Resource{}}
}

// run follows the selection until the context ends and every stream has stopped.
func (x *streams) run(ctx context.Context) {
	updates, unsubscribe := x.slot.hub.subscribe()
	defer unsubscribe()
	for {
		select {
		case selection := <-updates:
			x.newest = &selection
			if err := x.apply(ctx, selection); err != nil && ctx.Err() == nil {
				x.fail(err)
			}
		case <-x.slot.refusals.due():
			if err := x.askAgain(ctx); err != nil && ctx.Err() == nil {
				x.fail(err)
			}
		case <-ctx.Done():
			x.wg.Wait()
			for id := range x.running {
				x.slot.parts.Observer.StreamRemoved(id)
			}
			for id := range x.orphans {
				x.slot.parts.Observer.StreamRemoved(id)
			}
			for id := range x.refused {
				x.slot.parts.Observer.StreamRemoved(id)
			}
			return
		}
	}
}

// apply starts what is new, tells running streams what the API server serves now, and settles the orphans.
func (x *streams) apply(ctx context.Context, selection discovery.Selection) error {
	wanted := map[change.StreamID]bool{}
	for _, r := range selection.Resources {
		for _, s := range x.slot.config.StreamsOf(r) {
			if ownership.SlotOf(s.ID(), x.slot.config.Slots) != x.slot.number {
				continue
			}
			wanted[s.ID()] = true
			running, refused := x.running[s.ID()], x.slot.refusals.of(r)
			switch {
			case running != nil:
				running.SetResource(&s.Resource)
			case refused != nil:
				if err := x.leaveOut(ctx, s, refused); err != nil {
					return err
				}
			default:
				x.work(ctx, x.add(s))
			}
			x.doubt(s.ID(), selection.Doubt(r))
		}
	}
	for id, running := range x.running {
		if !wanted[id] && !selection.Unsure[running.Group()] {
			running.SetResource(nil)
			x.doubt(id, nil)
		}
	}
	x.slot.parts.Observer.StreamsKnown(x.slot.number)
	return x.settle(ctx, selection, wanted)
}

// add prepares a stream.
func (x *streams) add(s *change.Stream) *reflector.Reflector {
	parts := x.slot.parts
	options := x.slot.config.Source
	options.MetadataOnly, options.Redactor = x.slot.config.metadataOnly(s.Resource), x.slot.config.redactor(s.Resource)
	parts.Observer.StreamAdded(s.ID())
	running := reflector.New(s, parts.Server.Client(), options, x.reads, x.queue, parts.Observer, parts.Log)
	x.running[s.ID()] = running
	return running
}

func (x *streams) work(ctx context.Context, running *reflector.Reflector) {
	x.wg.Go(func() {
		err := x.redactions.settle(ctx, running.ID())
		if err == nil {
			err = running.Run(ctx)
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			x.fail(err)
		}
	})
}

// StreamsOf are the streams of one resource: one, or one a namespace. A cluster-scoped resource is in no namespace: where
// only some are exported it has no stream.
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

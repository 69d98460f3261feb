package export

import (
	"context"
	"errors"
	"sync"

	"kubecdc/change"
	"kubecdc/source"
)

// streams runs the streams of one slot for one session, and starts new ones as discovery finds them.
type streams struct {
	slot    *slot
	queue   *queue
	reads   *reads
	fail    context.CancelCauseFunc
	running map[string]*source.Stream
	wg      sync.WaitGroup
}

func newStreams(s *slot, q *queue, r *reads, fail context.CancelCauseFunc) *streams {
	return &streams{slot: s, queue: q, reads: r, fail: fail, running: map[string]*source.Stream{}}
}

// run follows the selection until the context ends and every stream has stopped.
func (x *streams) run(ctx context.Context) {
	updates, unsubscribe := x.slot.hub.subscribe()
	defer unsubscribe()
	for {
		select {
		case selection := <-updates:
			x.apply(ctx, selection)
		case <-ctx.Done():
			x.wg.Wait()
			for id := range x.running {
				x.slot.parts.Observer.StreamRemoved(id)
			}
			return
		}
	}
}

// apply starts what is new, and tells running streams what the API server serves now.
func (x *streams) apply(ctx context.Context, selection source.Selection) {
	wanted := map[string]bool{}
	for _, r := range selection.Resources {
		for _, s := range x.slot.config.streamsOf(r) {
			if slotOf(s.ID(), x.slot.config.Slots) != x.slot.number {
				continue
			}
			wanted[s.ID()] = true
			if running := x.running[s.ID()]; running != nil {
				running.SetResource(&s.Resource)
			} else {
				x.start(ctx, s)
			}
		}
	}
	for id, running := range x.running {
		if !wanted[id] && !selection.Unsure[running.Group()] {
			running.SetResource(nil)
		}
	}
	x.slot.parts.Observer.StreamsKnown(x.slot.number)
}

func (x *streams) start(ctx context.Context, s *change.Stream) {
	parts := x.slot.parts
	options := x.slot.config.Source
	options.MetadataOnly = x.slot.config.metadataOnly(s.Resource)
	parts.Observer.StreamAdded(s.ID())
	running := source.NewStream(s, parts.Client, options, x.reads, x.queue, parts.Observer, parts.Log)
	x.running[s.ID()] = running
	x.wg.Go(func() {
		if err := running.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			x.fail(err)
		}
	})
}

// streamsOf are the streams of one resource: one, or one a namespace.
func (c *Config) streamsOf(r change.Resource) (all []*change.Stream) {
	if !r.Namespaced || len(c.Namespaces) == 0 {
		return []*change.Stream{change.NewStream(r, "", c.LabelSelector, c.FieldSelector)}
	}
	for _, ns := range c.Namespaces {
		all = append(all, change.NewStream(r, ns, c.LabelSelector, c.FieldSelector))
	}
	return all
}

func (c *Config) metadataOnly(r change.Resource) bool {
	for _, p := range c.MetadataOnly {
		if p.Matches(r) {
			return true
		}
	}
	return false
}

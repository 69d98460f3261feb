package ownership

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/export/dependency"
)

// balancer works in rounds. In each it says that this replica lives, learns who else does and who owns what, claims free
// slots up to its share (assignment.go), and hands one over when it has more than that.
//
// Nothing depends on the rounds being in step, or on the view being right: a slot is acquired from the store, and
// whoever acquires it fences the owner before.
type balancer struct {
	Replica

	working   map[int]*worker
	ended     chan *worker
	firstBeat time.Time        // of this replica's heartbeats, that succeeded
	lastBeat  time.Time        // likewise
	heartbeat *dependency.Call // over all attempts since one was answered; nil: the last one was
	isolation isolation
	reported  string
}

// worker is the work on one slot.
type worker struct {
	slot    int
	stop    context.CancelCauseFunc
	leaving bool // to another replica
	err     error
}

func newBalancer(r Replica) *balancer {
	return &balancer{Replica: r, working: map[int]*worker{}, ended: make(chan *worker), lastBeat: time.Now()}
}

// run balances until the context ends, a slot can't go on, or the layout is changed (*checkpoint.LayoutError). Then
// it leaves the group, and what is held is drained and released.
func (b *balancer) run(ctx context.Context) error {
	slots, drain := context.WithCancel(ctx)
	defer drain()
	err := b.rounds(ctx, slots)
	if b.heartbeat != nil {
		b.heartbeat.End()
	}
	b.leave()
	drain()
	for len(b.working) > 0 {
		err = errors.Join(err, b.finish(<-b.ended))
	}
	return err
}

func (b *balancer) rounds(ctx, slots context.Context) error {
	for {
		if err := b.round(ctx, slots); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case w := <-b.ended:
			if err := b.finish(w); err != nil {
				return err
			}
		case <-time.After(b.pause()):
		}
	}
}

// pause is a tenth of a lease, more or less, so that replicas do not move in step.
func (b *balancer) pause() time.Duration {
	tenth := b.Lease / 10
	return tenth*3/4 + rand.N(tenth/2)
}

func (b *balancer) round(ctx, slots context.Context) error {
	excluded := b.isolation.excluded(b.Sink)
	replicas, err := b.beat(ctx, excluded)
	var layout *checkpoint.LayoutError
	switch {
	case errors.As(err, &layout), errors.Is(err, checkpoint.ErrGone):
		return err
	case err != nil:
		b.unanswered(ctx, err)
		return nil
	}
	b.lastBeat = time.Now()
	if b.firstBeat.IsZero() {
		b.firstBeat = b.lastBeat
	}
	v := b.view(replicas)
	if excluded {
		b.excludedRound(slots, v)
		return nil
	}
	b.isolation.heard(false, b.Lease)
	for _, slot := range v.claims() {
		b.start(slots, slot)
		v.owners[slot] = v.self
	}
	if slot, ok := v.surplus(); ok && !b.handingOver() {
		b.handOver(slot)
	}
	b.report(v)
	return nil
}

// beat says that this replica lives, unless it is not to count, and learns who does.
func (b *balancer) beat(ctx context.Context, excluded bool) (checkpoint.Replicas, error) {
	ttl := b.Lease
	if excluded {
		ttl = 0
	}
	ctx, cancel := context.WithTimeout(ctx, b.Lease/3)
	defer cancel()
	if b.heartbeat == nil {
		b.heartbeat = b.Watchdog.Begin(b.LeasesIn, "the heartbeat of this replica")
	}
	replicas, err := b.Leases.Heartbeat(ctx, b.Name, ttl)
	if err != nil {
		b.heartbeat.Failed(err)
		return replicas, err
	}
	b.heartbeat.End()
	b.heartbeat = nil
	return replicas, nil
}

// unanswered: slots that are held go on for as long as their leases can be renewed.
func (b *balancer) unanswered(ctx context.Context, err error) {
	if ctx.Err() == nil && time.Since(b.lastBeat) > b.Lease {
		b.lastBeat = time.Now()
		b.Logger.Warn("the other replicas can't be reached; no slot is taken or handed over", "error", err)
	}
}

// view is what the store says, but for this replica's own slots, which it knows better.
func (b *balancer) view(r checkpoint.Replicas) view {
	v := view{self: b.Name, slots: b.Slots, members: r.Members, owners: maps.Clone(r.Slots)}
	for slot := range b.working {
		v.owners[slot] = b.Name
	}
	return v
}

func (b *balancer) handingOver() bool {
	for _, w := range b.working {
		if w.leaving {
			return true
		}
	}
	return false
}

func (b *balancer) start(ctx context.Context, slot int) {
	w := &worker{slot: slot}
	ctx, w.stop = context.WithCancelCause(ctx)
	b.working[slot] = w
	go func() {
		w.err = b.Work(ctx, slot)
		b.ended <- w
	}()
}

func (b *balancer) handOver(slot int) {
	w := b.working[slot]
	if w == nil {
		return // the lease of an earlier worker, which will run out
	}
	b.Logger.Info("handing a slot over to another replica", "slot", slot)
	w.leaving = true
	w.stop(nil)
}

// finish takes note of a slot that is no longer worked on. Its error matters when this replica was fenced, or was
// told to stop: one that is handed over has lost nothing, the next owner finds out what is durable.
func (b *balancer) finish(w *worker) error {
	w.stop(nil)
	delete(b.working, w.slot)
	b.Sink.Forget(w.slot)
	b.Observer.Problem(w.slot, nil)
	if w.err == nil || errors.Is(w.err, checkpoint.ErrFenced) || !w.leaving {
		return w.err
	}
	b.Logger.Warn("a slot was handed over before it was drained", "slot", w.slot, "error", w.err)
	return nil
}

func (b *balancer) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := b.Leases.Leave(ctx, b.Name); err != nil {
		b.Logger.Debug("could not leave the replicas; the others will see it when the lease has run out", "error", err)
	}
}

// report says how this replica stands. It stands by when there are fewer slots than replicas; whether a former owner
// lives is known once it had time for a heartbeat.
func (b *balancer) report(v view) {
	s := Standing{Replicas: len(v.members), Owners: v.owners, Self: v.self, Held: len(b.working), Share: v.shares()[v.self]}
	if s.Held == 0 && s.Share == 0 && time.Since(b.firstBeat) > b.Lease {
		s.Standby = fmt.Sprintf("%d replicas share %d slots, and others hold them", s.Replicas, v.slots)
	}
	if s.Held == 0 && !b.isolation.others.IsZero() {
		s.Standby = b.isolation.why()
	}
	b.Observer.Standing(s)
	if text := fmt.Sprint(s.Replicas, s.Share); text != b.reported {
		b.reported = text
		b.Logger.Info("replicas", "alive", s.Replicas, "slots", v.slots, "share", s.Share, "held", slices.Sorted(maps.Keys(b.working)))
	}
}

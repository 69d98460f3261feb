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
	"kubecdc/internal/dependency"
	"kubecdc/internal/fault"
)

// balancer works in rounds. In each round it sends a heartbeat, and reads which other replicas are live and who owns which slot.
// It claims free slots up to its share (assignment.go), and hands over one slot if it holds more than its share.
//
// Correctness does not depend on the rounds or on the view. A slot must be acquired from the store, and its new owner fences the
// previous one.
type balancer struct {
	Replica

	workers        map[int]*worker
	ended          chan *worker
	firstHeartbeat time.Time        // the first that succeeded
	lastHeartbeat  time.Time        // the last that succeeded
	heartbeat      *dependency.Call // the unanswered heartbeat, over all attempts; nil: there is none
	isolation      isolation
	logged         string // the last logged assignment
}

// worker is the work on one slot.
type worker struct {
	slot        int
	stop        context.CancelCauseFunc
	handingOver bool // to another replica
	err         error
}

func newBalancer(r Replica) *balancer {
	return &balancer{Replica: r, workers: map[int]*worker{}, ended: make(chan *worker), lastHeartbeat: time.Now()}
}

func (b *balancer) run(ctx context.Context) error {
	slots, drain := context.WithCancel(ctx)
	defer drain()
	err := b.rounds(ctx, slots)
	if b.heartbeat != nil {
		b.heartbeat.End()
	}
	b.leave()
	drain()
	for len(b.workers) > 0 {
		err = errors.Join(err, b.finish(<-b.ended))
	}
	return err
}

func (b *balancer) rounds(ctx, slots context.Context) error {
	for {
		if err := b.round(ctx, slots); err != nil {
			return err
		}
		tenth := b.Lease / 10
		select {
		case <-ctx.Done():
			return nil
		case w := <-b.ended:
			if err := b.finish(w); err != nil {
				return err
			}
		case <-time.After(tenth*3/4 + rand.N(tenth/2)):
		}
	}
}

func (b *balancer) round(ctx, slots context.Context) error {
	excluded := b.isolation.update(b.Sink, b.APIServer)
	replicas, err := b.sendHeartbeat(ctx, excluded)
	if fault.Is[*checkpoint.LayoutError](err) || errors.Is(err, checkpoint.ErrGone) {
		return err
	}
	if err != nil {
		b.heartbeatFailed(ctx, err)
		return nil
	}
	b.lastHeartbeat = time.Now()
	if b.firstHeartbeat.IsZero() {
		b.firstHeartbeat = b.lastHeartbeat
	}
	v := b.view(replicas)
	if excluded {
		b.excludedRound(slots, v)
		return nil
	}
	b.isolation.checkOthers(false, b.Lease)
	b.claim(slots, v)
	if slot, ok := v.surplus(b.keeps); ok {
		b.handOver(slot)
	}
	b.report(v)
	return nil
}

func (b *balancer) keeps(slot int) bool { return b.Keeps != nil && b.Keeps(slot) }

// claim starts to work on this replica's part of the free slots.
func (b *balancer) claim(ctx context.Context, v view) {
	for _, slot := range v.claims() {
		if b.Keeps != nil && !b.Keeps(slot) && !b.Sink.answers() {
			continue // another replica may keep its changes
		}
		w := &worker{slot: slot}
		ctx, stop := context.WithCancelCause(ctx)
		w.stop, b.workers[slot], v.owners[slot] = stop, w, b.Name
		go func() {
			w.err = b.Work(ctx, slot)
			b.ended <- w
		}()
	}
}

// sendHeartbeat returns the live replicas. An excluded replica's heartbeat has no lifetime, so it does not count.
func (b *balancer) sendHeartbeat(ctx context.Context, excluded bool) (checkpoint.Replicas, error) {
	ttl := b.Lease
	if excluded {
		ttl = 0
	}
	ctx, cancel := context.WithTimeout(ctx, b.Lease/3)
	defer cancel()
	if b.heartbeat == nil {
		b.heartbeat = b.Watchdog.Begin(dependency.Checkpoint, "the heartbeat of this replica")
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

// heartbeatFailed logs the error, once per lease. The work on slots continues for as long as their own leases are renewed.
func (b *balancer) heartbeatFailed(ctx context.Context, err error) {
	if ctx.Err() == nil && time.Since(b.lastHeartbeat) > b.Lease {
		b.lastHeartbeat = time.Now()
		b.Logger.Warn("heartbeats fail: no slot is claimed or handed over", "error", err)
	}
}

// view is the store's answer, corrected by the slots that this replica works on.
func (b *balancer) view(r checkpoint.Replicas) view {
	v := view{self: b.Name, slots: b.Slots, members: r.Members, owners: maps.Clone(r.Slots)}
	for slot := range b.workers {
		v.owners[slot] = b.Name
	}
	return v
}

// handOver hands a slot over. It does nothing if another slot is being handed over, or if only the lease of an earlier worker is
// left.
func (b *balancer) handOver(slot int) {
	w := b.workers[slot]
	if w == nil || slices.ContainsFunc(slices.Collect(maps.Values(b.workers)), func(w *worker) bool { return w.handingOver }) {
		return
	}
	b.Logger.Info("handing a slot over to another replica", "slot", slot)
	w.handingOver = true
	w.stop(nil)
}

// finish removes a worker that has ended. It returns the worker's error, except for a slot that was handed over: its next
// owner reads from the sink what is durable.
func (b *balancer) finish(w *worker) error {
	w.stop(nil)
	delete(b.workers, w.slot)
	b.Sink.Forget(w.slot)
	b.Observer.Problem(w.slot, nil)
	if w.err == nil || errors.Is(w.err, checkpoint.ErrFenced) || !w.handingOver {
		return w.err
	}
	b.Logger.Warn("the slot was handed over before it was drained", "slot", w.slot, "error", w.err)
	return nil
}

func (b *balancer) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := b.Leases.Leave(ctx, b.Name); err != nil {
		b.Logger.Debug("failed to remove the heartbeat of this replica; it will expire", "error", err)
	}
}

// report notifies the observer. A replica without a share is on standby only once a lease has passed since its first heartbeat.
// By then every live owner has sent one, too.
func (b *balancer) report(v view) {
	s := Status{Replicas: len(v.members), Owners: v.owners, Self: v.self, Held: len(b.workers), Share: v.shares()[v.self]}
	if s.Held == 0 && s.Share == 0 && time.Since(b.firstHeartbeat) > b.Lease {
		s.Standby = fmt.Sprintf("%d replicas share %d slots, and others hold them", s.Replicas, v.slots)
	}
	if s.Held == 0 && !b.isolation.othersSince.IsZero() {
		s.Standby = b.isolation.standby()
	}
	b.Observer.ReplicaStatus(s)
	if text := fmt.Sprint(s.Replicas, s.Share); text != b.logged {
		b.logged = text
		b.Logger.Info("slot assignment has changed", "replicas", s.Replicas, "slots", v.slots,
			"share", s.Share, "held", slices.Sorted(maps.Keys(b.workers)))
	}
}

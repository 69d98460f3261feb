package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"kubecdc/checkpoint"
)

// balancer decides which slots this replica works on. In each round it says that it lives, learns who else does and
// who owns what, takes free slots up to its share (share.go), and hands one over when it has more than that.
//
// Nothing depends on the rounds being in step, or on the view being right: a slot is acquired from the store, and
// whoever acquires it fences the owner before.
type balancer struct {
	config Config
	parts  Parts
	log    *slog.Logger
	work   func(ctx context.Context, slot int) error // until ctx ends (nil: drained) or it can't go on

	working map[int]*worker
	ended   chan *worker
	first   time.Time // of this replica's heartbeats
	beaten  time.Time // the last one that succeeded
	unheard *stall    // heartbeats that have had no answer; nil: the last one had
	aside   aside
	told    string
}

type worker struct {
	slot   int
	stop   context.CancelCauseFunc
	moving bool // to another replica
	err    error
}

func newBalancer(config Config, parts Parts, work func(context.Context, int) error) *balancer {
	return &balancer{config: config, parts: parts, log: parts.Log, work: work, working: map[int]*worker{}, ended: make(chan *worker), beaten: time.Now()}
}

// run balances until the context ends, a slot can't go on, or the layout is changed (*checkpoint.LayoutError). Then
// it leaves the replicas, and what is held is drained and released.
func (b *balancer) run(ctx context.Context) error {
	slots, drain := context.WithCancel(ctx)
	defer drain()
	err := b.rounds(ctx, slots)
	if b.unheard != nil {
		b.unheard.end()
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
	tenth := b.config.LeaseDuration / 10
	return tenth*3/4 + rand.N(tenth/2)
}

func (b *balancer) round(ctx, slots context.Context) error {
	apart := b.aside.look(b.parts.reach)
	replicas, err := b.beat(ctx, apart)
	var layout *checkpoint.LayoutError
	switch {
	case errors.As(err, &layout), isGone(err):
		return err
	case err != nil:
		b.silent(ctx, err)
		return nil
	}
	b.beaten = time.Now()
	if b.first.IsZero() {
		b.first = b.beaten
	}
	v := b.view(replicas)
	if apart {
		b.standAside(slots, v)
		return nil
	}
	b.aside.met(false, b.config.LeaseDuration)
	for _, slot := range v.take() {
		b.start(slots, slot)
		v.owners[slot] = v.self
	}
	if slot, ok := v.give(); ok && !b.moving() {
		b.handOver(slot)
	}
	b.tell(v)
	return nil
}

// beat says that this replica lives, unless it stands aside, and learns who does.
func (b *balancer) beat(ctx context.Context, apart bool) (checkpoint.Replicas, error) {
	ttl := b.config.LeaseDuration
	if apart {
		ttl = 0
	}
	ctx, cancel := context.WithTimeout(ctx, b.config.LeaseDuration/3)
	defer cancel()
	if b.unheard == nil {
		b.unheard = b.parts.stalls.begin(b.leases(), "the heartbeat of this replica")
	}
	replicas, err := b.parts.Leases.Heartbeat(ctx, b.config.Owner, ttl)
	if err != nil {
		b.unheard.failed(err)
		return replicas, err
	}
	b.unheard.end()
	b.unheard = nil
	return replicas, nil
}

// leases names the part that has the leases.
func (b *balancer) leases() string {
	if b.parts.Leases == checkpoint.Leases(b.parts.Store) {
		return PartCheckpoint
	}
	return PartLeases
}

// silent: slots that are held go on for as long as their leases can be renewed.
func (b *balancer) silent(ctx context.Context, err error) {
	if ctx.Err() == nil && time.Since(b.beaten) > b.config.LeaseDuration {
		b.beaten = time.Now()
		b.log.Warn("the other replicas can't be reached; no slot is taken or handed over", "error", err)
	}
}

// view is what the store says, but for this replica's own slots, which it knows better.
func (b *balancer) view(r checkpoint.Replicas) view {
	v := view{self: b.config.Owner, slots: b.config.Slots, members: r.Members, owners: maps.Clone(r.Slots)}
	for slot := range b.working {
		v.owners[slot] = b.config.Owner
	}
	return v
}

func (b *balancer) moving() bool {
	for _, w := range b.working {
		if w.moving {
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
		w.err = b.work(ctx, slot)
		b.ended <- w
	}()
}

func (b *balancer) handOver(slot int) {
	w := b.working[slot]
	if w == nil {
		return // the lease of an earlier worker, which will run out
	}
	b.log.Info("handing a slot over to another replica", "slot", slot)
	w.moving = true
	w.stop(nil)
}

// finish takes note of a slot that is no longer worked on. Its error matters when this replica was fenced, or was
// told to stop: one that is handed over has lost nothing, the next owner finds out what is durable.
func (b *balancer) finish(w *worker) error {
	w.stop(nil)
	delete(b.working, w.slot)
	b.parts.reach.left(w.slot)
	b.parts.Observer.Problem(w.slot, nil)
	if w.err == nil || isFenced(w.err) || !w.moving {
		return w.err
	}
	b.log.Warn("a slot was handed over before it was drained", "slot", w.slot, "error", w.err)
	return nil
}

func (b *balancer) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := b.parts.Leases.Leave(ctx, b.config.Owner); err != nil {
		b.log.Debug("could not leave the replicas; the others will see it when the lease has run out", "error", err)
	}
}

// tell says how this replica stands. It stands by when there are fewer slots than replicas; whether a former owner
// lives is known once it had time for a heartbeat.
func (b *balancer) tell(v view) {
	s := Standing{Replicas: len(v.members), Owners: v.owners, Self: v.self, Held: len(b.working), Share: v.shares()[v.self]}
	if s.Held == 0 && s.Share == 0 && time.Since(b.first) > b.config.LeaseDuration {
		s.Standby = fmt.Sprintf("%d replicas share %d slots, and others hold them", s.Replicas, v.slots)
	}
	if s.Held == 0 && !b.aside.others.IsZero() {
		s.Standby = b.aside.why()
	}
	b.parts.Observer.Standing(s)
	if text := fmt.Sprint(s.Replicas, s.Share); text != b.told {
		b.told = text
		b.log.Info("replicas", "alive", s.Replicas, "slots", v.slots, "share", s.Share, "held", slices.Sorted(maps.Keys(b.working)))
	}
}

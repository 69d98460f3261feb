package export

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/sinks"
)

// settleLayout returns when the streams are spread over as many slots as this process is told to. Where they are not, it
// waits until no replica with the other number lives, and then changes it. So whoever is alive is right, and in a
// rolling update the old replicas go on until the last of them has ended.
func settleLayout(ctx context.Context, config Config, parts Parts) error {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = config.LeaseDuration/10, config.LeaseDuration
	told := ""
	defer parts.Observer.Problem(0, nil)
	for {
		have, err := slotsStored(ctx, config, parts)
		if err == nil && have == config.Slots {
			return nil
		}
		if err == nil {
			parts.Start.Done() // its limit is for servers, which have answered
			err = (&relayout{config: config, parts: parts, from: have, to: config.Slots}).run(ctx)
		}
		var other *otherLayoutError
		wait := retry.NextBackOff()
		switch {
		case err == nil || isForeign(err) || isGone(err):
			return err
		case errors.As(err, &other):
			wait = min(wait, config.LeaseDuration/4)
			parts.Observer.Problem(0, nil)
			parts.Observer.Standing(Standing{Replicas: len(other.members), Standby: err.Error()})
		case ctx.Err() == nil && !isTaken(err):
			parts.Observer.Standing(Standing{}) // nobody else has the slots
			parts.Observer.Problem(0, fmt.Errorf("the slots can't be laid out anew: %w", err))
		}
		if text := err.Error(); text != told && ctx.Err() == nil {
			told = text
			parts.Log.Warn("waiting for the slots to be laid out anew", "reason", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func slotsStored(ctx context.Context, config Config, parts Parts) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, checkpointPatience(config))
	defer cancel()
	return parts.Store.Slots(ctx, config.Slots)
}

// otherLayoutError: replicas with another number of slots live.
type otherLayoutError struct {
	want, have int
	members    []string
}

func (e *otherLayoutError) Error() string {
	return fmt.Sprintf("KUBECDC_SLOTS is %d here, but %d in the replicas that run (%q): standing by until they have ended, or set it to %d",
		e.want, e.have, e.members, e.have)
}

// relayout changes the number of slots. It becomes the owner of every slot of both layouts, which fences whoever
// thinks to be one, and rolls all their tails forward: after that the checkpoint alone says where each stream stands,
// whichever slot it belonged to. Each slot of the new layout begins with a control record, so that its offsets in
// the checkpoint are of now, and not of when it was used last.
type relayout struct {
	config   Config
	parts    Parts
	from, to int
	opened   []*openedSlot
}

type openedSlot struct {
	*slot
	state checkpoint.SlotState
	log   sinks.Log
}

func (r *relayout) run(ctx context.Context) error {
	if err := r.alone(ctx); err != nil {
		return err
	}
	r.parts.Log.Info("changing the number of slots", "from", r.from, "to", r.to)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	defer r.close()
	for n := range max(r.from, r.to) { // in order, so that of two processes that come at once one fails at the first
		if err := r.open(ctx, n, fail); err != nil {
			return err
		}
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	return r.store(ctx)
}

// alone makes sure that no replica of the old layout lives. One may yet start: then it owns a slot, or finds it held.
func (r *relayout) alone(ctx context.Context) error {
	if _, err := r.parts.Store.Slots(ctx, r.from); err != nil { // from here on, the store speaks of the old layout
		return err
	}
	replicas, err := r.parts.Leases.Heartbeat(ctx, r.config.Owner, 0)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(replicas.Members, func(m string) bool { return m == r.config.Owner })
	if len(others) > 0 {
		return &otherLayoutError{r.to, r.from, others}
	}
	return nil
}

// open takes a slot and keeps it.
func (r *relayout) open(ctx context.Context, n int, fail context.CancelCauseFunc) error {
	config := r.config
	config.Slots = r.from
	o := &openedSlot{slot: newSlot(n, config, r.parts, nil)}
	var err error
	if o.state, err = o.acquire(ctx); err != nil {
		return err
	}
	r.opened = append(r.opened, o)
	open := o.slot.open
	if n >= r.from && !o.state.New {
		open = o.openUnused
	}
	if o.log, err = o.openRaised(ctx, &o.state, open); err != nil {
		return err
	}
	go o.renew(ctx, o.state.Epoch, fail)
	return nil
}

// openUnused opens a slot that no stream belongs to: what it may have lost concerns nobody. It has a tail where an earlier
// change of the layout was killed. Of that only the numbers count, which go on from there.
func (o *openedSlot) openUnused(ctx context.Context, state *checkpoint.SlotState) (sinks.Log, error) {
	opened, err := o.parts.Sink.Open(ctx, o.number, state.Epoch, sinks.Durable{Seq: state.Seq, Offsets: state.Offsets})
	if err != nil {
		return nil, fmt.Errorf("open the log of slot %d: %w", o.number, err)
	}
	tail := opened.Tail
	opened.Tail = func(ctx context.Context, visit func(*sinks.Recovered) error) error {
		return tail(ctx, func(b *sinks.Recovered) error {
			b.Batch.Changes, b.Batch.Positions = nil, nil
			return visit(b)
		})
	}
	if _, err := o.rollForward(ctx, state, opened); err != nil {
		opened.Log.Close()
		return nil, err
	}
	return opened.Log, nil
}

// begin writes the first record of each slot of the new layout. Its checkpoint takes over where all data partitions
// stand, so that it is noticed when one of them is lost.
func (r *relayout) begin(ctx context.Context) error {
	offsets := change.Offsets{}
	for _, o := range r.opened[:r.from] {
		offsets.Merge(o.state.Offsets)
	}
	for _, o := range r.opened[:r.to] {
		record := change.Control{Type: change.ControlLayout, Cause: fmt.Sprintf("KUBECDC_SLOTS was %d and is %d", r.from, r.to)}
		if err := o.commitControls(ctx, &o.state, o.log, []change.Control{record}, offsets, nil); err != nil {
			return err
		}
	}
	return nil
}

// store changes the number in the checkpoint.
func (r *relayout) store(ctx context.Context) error {
	do := checkpoint.Relayout{From: r.from, To: r.to, Slots: map[int]checkpoint.SlotState{}}
	for _, o := range r.opened {
		do.Slots[o.number] = o.state
	}
	return r.parts.Store.Relayout(ctx, do)
}

func (r *relayout) close() {
	for _, o := range r.opened {
		if o.log != nil {
			o.log.Close()
		}
		o.release(o.state.Epoch)
		r.parts.reach.left(o.number)
	}
}

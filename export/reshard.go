package export

import (
	"context"
	"fmt"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/ownership"
	"kubecdc/export/resharding"
	"kubecdc/sinks"
)

// resharder changes the number of slots as this process's settings say, with the parts that its sessions work with.
func resharder(config Config, parts Parts) *resharding.Resharder {
	return &resharding.Resharder{Slots: config.Slots, Owner: config.Owner, Lease: config.LeaseDuration, Patience: checkpointPatience(config),
		Topology: parts.Store, Leases: parts.Leases, Logger: parts.Logger,
		Acquire: func(ctx context.Context, n, slots int) (resharding.Slot, error) {
			config := config
			config.Slots = slots
			s := newSlot(n, config, parts, nil)
			state, err := s.acquire(ctx)
			if err != nil {
				return nil, err
			}
			return &acquired{slot: s, state: state}, nil
		},
		Standby: func(replicas int, why string) {
			parts.Observer.ReplicaStatus(ownership.Status{Replicas: replicas, Standby: why})
		},
		Problem: func(err error) {
			switch {
			case err == nil:
				parts.Observer.Problem(0, nil)
			case !isTaken(err):
				parts.Observer.ReplicaStatus(ownership.Status{}) // nobody else has the slots
				parts.Observer.Problem(0, fmt.Errorf("the slots can't be laid out anew: %w", err))
			}
		},
		Begun: parts.Start.Done, // its limit is for servers, which have answered
		Final: func(err error) bool { return isForeign(err) || isGone(err) },
	}
}

// acquired is a slot outside of a session: it is opened and written to, and no stream of it is read.
type acquired struct {
	*slot
	state checkpoint.SlotState
	log   sinks.Log // nil: not open
}

func (a *acquired) State() checkpoint.SlotState { return a.state }

func (a *acquired) Open(ctx context.Context, unused bool, lost context.CancelCauseFunc) (err error) {
	open := a.slot.open
	if unused {
		open = a.openUnused
	}
	if a.log, err = a.openRaised(ctx, &a.state, open); err != nil {
		return err
	}
	go a.renew(ctx, a.state.Epoch, lost)
	return nil
}

// openUnused opens a slot that no stream belongs to: what it may have lost concerns nobody. It has a tail where an earlier
// change of the number of slots was killed. Only the numbers of its batches count, which go on from there.
func (a *acquired) openUnused(ctx context.Context, state *checkpoint.SlotState) (sinks.Log, error) {
	opened, err := a.parts.Sink.Open(ctx, a.number, state.Epoch, sinks.Durable{Seq: state.Seq, Offsets: state.Offsets})
	if err != nil {
		return nil, fmt.Errorf("open the log of slot %d: %w", a.number, err)
	}
	tail := opened.Tail
	opened.Tail = func(ctx context.Context, visit func(*sinks.Recovered) error) error {
		return tail(ctx, func(b *sinks.Recovered) error {
			b.Batch.Changes, b.Batch.Positions = nil, nil
			return visit(b)
		})
	}
	if _, err := a.rollForward(ctx, state, opened); err != nil {
		opened.Log.Close()
		return nil, err
	}
	return opened.Log, nil
}

func (a *acquired) Begin(ctx context.Context, record change.Control, offsets change.Offsets) error {
	return a.commitControls(ctx, &a.state, a.log, []change.Control{record}, offsets, nil)
}

func (a *acquired) Close() {
	if a.log != nil {
		a.log.Close()
	}
	a.release(a.state.Epoch)
	a.parts.reach.Forget(a.number)
}

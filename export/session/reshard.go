package session

import (
	"context"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/commit"
	"kubecdc/export/inventory"
	"kubecdc/export/plan"
	"kubecdc/export/resharding"
	"kubecdc/sinks"
)

// NewResharder makes the resharder of this process, which acquires and opens slots as sessions do.
func NewResharder(config plan.Config, parts *plan.Watched) *resharding.Resharder {
	return &resharding.Resharder{Slots: config.Slots, Owner: config.Owner, Lease: config.LeaseDuration,
		Timeout: config.CheckpointTimeout(), Topology: parts.Store, Observer: parts.State, Logger: parts.Logger,
		Acquire: func(ctx context.Context, n, slots int) (resharding.Slot, error) {
			config := config
			config.Slots = slots
			s := newSlot(n, config, parts, nil)
			state, err := s.acquire(ctx)
			if err != nil {
				return nil, err
			}
			return &acquiredSlot{slot: s, state: state}, nil
		},
		IsFinal: isFinal,
	}
}

// acquiredSlot is a slot outside of a session: it is opened and written to, but its streams are not read.
type acquiredSlot struct {
	*slot
	state checkpoint.SlotState
	log   *commit.Opened // nil until it is open
	ends  change.Offsets // the ends of what an unused slot's log has lost
}

func (a *acquiredSlot) State() checkpoint.SlotState { return a.state }

func (a *acquiredSlot) Open(ctx context.Context, unused bool, fail context.CancelCauseFunc) (err error) {
	open := a.slot.open
	if unused {
		open = a.openUnused
	}
	if a.log, err = a.openRaisingEpoch(ctx, &a.state, open); err != nil {
		return err
	}
	go a.renew(ctx, a.state.Epoch, fail)
	return nil
}

// openUnused opens a slot that no stream belongs to. The slot has a tail if an earlier layout change was killed. Only the batch
// numbers of the tail matter. Losses in the slot's log concern no stream yet. Begin moves the offsets past these losses, so that
// no session takes them for losses of the slot's later streams.
func (a *acquiredSlot) openUnused(ctx context.Context, state *checkpoint.SlotState) (*commit.Opened, error) {
	return a.openWith(ctx, state, func(found *sinks.Opened, write inventory.Write) (*commit.Opened, error) {
		v, loss, err := a.inventory.OpenUnused(ctx, state, found, write)
		if loss != nil {
			a.Logger.Warn("the log of a slot without streams has lost records: nothing depends on them", "reason", loss.Reason)
			a.ends = loss.Offsets
		}
		return &commit.Opened{Memory: v, Following: v, Log: found.Log}, err
	})
}

func (a *acquiredSlot) Begin(ctx context.Context, record change.Control, offsets change.Offsets) error {
	offsets = change.Offsets{}.Merge(a.ends).Merge(offsets)
	return a.writeControls(ctx, &a.state, a.log, []change.Control{record}, nil, offsets)
}

func (a *acquiredSlot) Close() {
	if a.log != nil {
		a.log.Log.Close()
	}
	a.release(a.state.Epoch)
	a.Parts.SinkReach.Forget(a.Number)
}

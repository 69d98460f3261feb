package inventory

import (
	"cmp"
	"context"
	"errors"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/sinks"
)

// Slot opens a slot's inventory in each session. It learns from earlier sessions, but a crash may forget that without a loss.
type Slot struct {
	Settings
	Parts
	// Spooled reports whether a spool continues the log after a batch, with these positions. The log gets the complete spool
	// before the inventory is rebuilt, since only the inventory has the state between log and spool. nil: there are no spools.
	Spooled func(ctx context.Context, seq uint64, positions []change.Position) (bool, error)
	damaged bool                 // the last session read a damaged body
	loss    *sinks.LostTailError // that the last session's proof found, or nil
	unread  unread
}

// Learn takes the error of a session, for the next one.
func (s *Slot) Learn(err error) {
	s.damaged = errors.Is(err, checkpoint.ErrDamaged)
	s.loss, _ = errors.AsType[*sinks.LostTailError](err)
	if unread, ok := errors.AsType[*UnreadError](err); ok {
		s.unread.streams = unread.streams
	}
}

// Open rolls the inventory forward over what earlier owners wrote to the log, or rebuilds it. It updates the slot's state. It
// returns what the log has lost, or nil, and the positions that the store had before.
func (s *Slot) Open(ctx context.Context, state *checkpoint.SlotState, opened *sinks.Opened, write Write) (
	v *Inventory, loss *sinks.LostTailError, before []change.Position, err error) {
	if loss, err = s.rollForward(ctx, state, opened); err != nil {
		return nil, nil, nil, err
	}
	if before, err = s.positions(ctx); err != nil {
		return nil, nil, nil, err
	}
	known, err := s.LostBefore(ctx, state.Seq, before)
	if err != nil {
		return nil, nil, nil, err
	}
	if known = known.Join(s.loss); loss != nil && loss.Gone != nil {
		loss = loss.Join(known)
	}
	loss, err = s.reconcile(ctx, state, opened.Content, cmp.Or(loss, known), before)
	return s.inventory(state, opened.Content, write), loss, before, err
}

// Stored returns the inventory as the store has it, only for reading, while the log is not open.
func (s *Slot) Stored(state *checkpoint.SlotState) *Inventory { return s.inventory(state, nil, nil) }

// OpenUnused opens the inventory of a slot without streams. Only the numbers of earlier owners' batches count.
func (s *Slot) OpenUnused(ctx context.Context, state *checkpoint.SlotState, opened *sinks.Opened, write Write) (
	v *Inventory, loss *sinks.LostTailError, err error) {
	tail := opened.Tail
	opened.Tail = func(ctx context.Context, visit func(*sinks.Recovered) error) error {
		return tail(ctx, func(b *sinks.Recovered) error {
			b.Batch.Changes, b.Batch.Positions = nil, nil
			return visit(b)
		})
	}
	if loss, err = s.rollForward(ctx, state, opened); err != nil {
		return nil, nil, err
	}
	return s.inventory(state, opened.Content, write), loss, nil
}

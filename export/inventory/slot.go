package inventory

import (
	"cmp"
	"context"
	"errors"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/sinks"
)

// Slot opens a slot's inventory, session after session. None of what it has learnt from earlier ones says what was written: a crash
// forgets it, and loses nothing.
type Slot struct {
	Settings
	Parts
	damaged bool                 // a body that the last session read
	loss    *sinks.LostTailError // that the last session found with a proof; nil: none
	unread  unread
}

// Learn takes the error of a session, and reports whether the next one can start at once.
func (s *Slot) Learn(err error) (atOnce bool) {
	s.damaged = errors.Is(err, checkpoint.ErrDamaged)
	s.loss, _ = errors.AsType[*sinks.LostTailError](err)
	unread, is := errors.AsType[*unreadError](err)
	if is {
		s.unread.streams = unread.streams
	}
	return is
}

// Open rolls the inventory forward over what earlier owners wrote to the log, or rebuilds it. It updates the slot's state, and
// returns what the log has lost, nil if that is nothing, and the positions that the store had before.
func (s *Slot) Open(ctx context.Context, state *checkpoint.SlotState, opened *sinks.Opened, write Write) (
	v *Inventory, loss *sinks.LostTailError, before []change.Position, err error) {
	loss, err = s.rollForward(ctx, state, opened)
	if err == nil {
		loss, before, err = s.reconcile(ctx, state, opened.Content, cmp.Or(loss, s.loss))
	}
	if err != nil {
		return nil, nil, nil, err
	}
	return s.inventory(state, opened.Content, write), loss, before, nil
}

// Stored returns the inventory as the store has it, for reading: the log is not open.
func (s *Slot) Stored(state *checkpoint.SlotState) *Inventory { return s.inventory(state, nil, nil) }

// OpenUnused opens the inventory of a slot that no stream belongs to: of what earlier owners wrote only the batch numbers count.
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

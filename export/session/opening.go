package session

import (
	"context"
	"fmt"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/commit"
	"kubecdc/export/inventory"
	"kubecdc/export/spooling"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
)

// open fences the former owners in the sink, updates what is stored to match the log, and records what the log has lost.
func (s *slot) open(ctx context.Context, state *checkpoint.SlotState) (o *commit.Opened, err error) {
	return s.openWith(ctx, state, func(found *sinks.Opened, write inventory.Write) (*commit.Opened, error) {
		if found.Memory != nil {
			before, err := s.Positions(ctx, nil)
			return &commit.Opened{Memory: commit.NewLogMemory(&s.Slot, found.Memory, found.Last, write), Log: found.Log,
				Loss: inventory.Concerning(found.Lost, before), Had: before}, dependency.Tag(dependency.Sink, err)
		}
		v, loss, before, err := s.inventory.Open(ctx, state, found, write)
		return &commit.Opened{Memory: v, Guard: v, Following: v, Log: found.Log, Loss: loss, Had: before}, err
	})
}

func (s *slot) openWith(ctx context.Context, state *checkpoint.SlotState,
	remember func(*sinks.Opened, inventory.Write) (*commit.Opened, error)) (
	*commit.Opened, error) {
	var found *sinks.Opened
	err := s.Parts.SinkReach.Call(s.Number, func() (err error) {
		found, err = s.Parts.Sink.Open(ctx, s.Number, state.Epoch,
			sinks.Durable{Seq: state.Seq, Offsets: state.Offsets, New: state.New})
		return err
	})
	if err != nil {
		return nil, dependency.Tag(dependency.Sink, err)
	}
	o, err := remember(found, s.writeTo(found.Log))
	switch {
	case err != nil:
	case o.Loss != nil && s.spool != nil:
		err = s.loseBeforeSpool(ctx, state, o)
	case o.Loss != nil:
		err = s.recordLoss(ctx, state, o)
	case found.Hole != nil:
		s.Logger.Error("the log has a hole: gap records explain it", "reason", found.Hole.Reason)
		if o.Hole = found.Hole.Records(); s.spool == nil {
			err = s.writeControls(ctx, state, o, o.Hole, nil, nil)
		}
	case found.Passed > maxPassed && s.spool == nil:
		err = s.writeControls(ctx, state, o, nil, nil, nil)
	}
	if err != nil {
		found.Log.Close()
		return nil, err
	}
	return o, nil
}

// maxPassed is how many records of other slots the next owner may have to read again. A slot without streams writes no batch by
// itself. Otherwise it would read everything that others have written at each start.
const maxPassed = 1000

// writeTo writes batches to the slot's log, and watches whether the sink answers.
func (s *slot) writeTo(log sinks.Log) inventory.Write {
	return func(ctx context.Context, b *change.Batch) (offsets change.Offsets, err error) {
		what := fmt.Sprintf("batch %d of slot %d", b.Seq, b.Slot)
		if s.Parts.Spools != nil && !spooling.IsUnhurried(ctx) {
			var cancel context.CancelFunc
			var giveUp context.CancelCauseFunc
			ctx, cancel = context.WithTimeoutCause(ctx, spooling.After, spooling.ErrSinkSilent)
			defer cancel()
			ctx, giveUp = context.WithCancelCause(ctx)
			defer giveUp(nil)
			defer s.endWriting()
			if err := s.startWriting(); err != nil {
				return nil, err
			}
			s.sink = sending(b)
			written := s.spoolEarly(ctx, b, giveUp)
			defer func() {
				if written(err); err == nil {
					s.sink = acked(b)
				}
			}()
		}
		err = s.Parts.Watchdog.Do(dependency.Sink, what, func() error {
			return s.Parts.SinkReach.Call(s.Number, func() (err error) {
				offsets, err = log.Write(ctx, b)
				return err
			})
		})
		return offsets, err
	}
}

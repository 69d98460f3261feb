// Package resharding changes over how many slots the streams are spread: when all replicas that run want another number, and
// then by becoming the owner of every slot of both layouts. It decides the order of the steps. How a slot is acquired, opened
// and written to is the session's to know, which stream belongs to which slot the ownership's.
package resharding

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// Resharder sees to the number of slots that this process is told to have.
type Resharder struct {
	Slots    int           // wanted
	Owner    string        // this process
	Lease    time.Duration // it looks more often than once a lease
	Patience time.Duration // for the checkpoint to give the number of slots
	Topology Topology
	Leases   Leases
	Logger   *slog.Logger

	// Acquire makes this process the owner of a slot, in a layout of so many.
	Acquire func(ctx context.Context, slot, slots int) (Slot, error)
	// Standby is told of replicas with another number of slots, which are waited for.
	Standby func(replicas int, why string)
	// Problem is told why the number can't be changed although nobody else has the slots; nil: it could be, or is waited for.
	Problem func(error)
	// Begun is called when the checkpoint has given its number of slots, and another one is wanted.
	Begun func()
	// Final reports whether trying again makes no sense after an error.
	Final func(error) bool
}

// Topology is what the checkpoint knows of the number of slots.
type Topology interface {
	Slots(ctx context.Context, want int) (have int, err error)
	Relayout(ctx context.Context, r checkpoint.Relayout) error
}

// Leases tell which replicas live.
type Leases interface {
	Heartbeat(ctx context.Context, owner string, ttl time.Duration) (checkpoint.Replicas, error)
}

// Slot is a slot that this process has acquired.
type Slot interface {
	State() checkpoint.SlotState
	// Open opens the slot's log, moves the checkpoint over its tail, and renews the lease from then on until the context
	// ends; lost is called when that fails. What an unused slot's log may have lost concerns no stream.
	Open(ctx context.Context, unused bool, lost context.CancelCauseFunc) error
	// Begin writes a record, and checkpoints it with offsets of other slots.
	Begin(ctx context.Context, record change.Control, offsets change.Offsets) error
	// Close releases the slot.
	Close()
}

// Settle returns when the streams are spread over as many slots as wanted. Where they are not, it waits until no replica
// with the other number lives, and then changes it. So whoever is alive is right, and in a rolling update the old replicas
// go on until the last of them has ended.
func (r *Resharder) Settle(ctx context.Context) error {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = r.Lease/10, r.Lease
	reported := ""
	defer r.Problem(nil)
	for {
		have, err := r.stored(ctx)
		if err == nil && have == r.Slots {
			return nil
		}
		if err == nil {
			r.Begun()
			err = (&relayout{Resharder: r, from: have, to: r.Slots}).run(ctx)
		}
		var others *othersError
		wait := retry.NextBackOff()
		switch {
		case err == nil || r.Final(err):
			return err
		case errors.As(err, &others):
			wait = min(wait, r.Lease/4)
			r.Problem(nil)
			r.Standby(len(others.members), err.Error())
		case ctx.Err() == nil:
			r.Problem(err)
		}
		if text := err.Error(); text != reported && ctx.Err() == nil {
			reported = text
			r.Logger.Warn("waiting for the slots to be laid out anew", "reason", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func (r *Resharder) stored(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	return r.Topology.Slots(ctx, r.Slots)
}

// othersError: replicas with another number of slots live.
type othersError struct {
	want, have int
	members    []string
}

func (e *othersError) Error() string {
	return fmt.Sprintf("KUBECDC_SLOTS is %d here, but %d in the replicas that run (%q): standing by until they have ended, or set it to %d",
		e.want, e.have, e.members, e.have)
}

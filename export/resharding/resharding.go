// Package resharding changes the number of slots, once no replica with the old number is running, by acquiring every slot of both
// layouts. It decides when that happens, and in which steps. Package export passes in how a slot is acquired, opened and written.
// Package ownership knows which stream belongs to which slot.
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
	"kubecdc/export/ownership"
	"kubecdc/internal/fault"
	"kubecdc/internal/wait"
)

// Resharder sets the checkpoint's number of slots to the configured one.
type Resharder struct {
	Slots    int           // configured
	Owner    string        // name of this process as owner of slots
	Lease    time.Duration // longest time between attempts
	Timeout  time.Duration // timeout of the call that reads the number of slots
	Topology Topology
	Observer ownership.Observer
	Logger   *slog.Logger

	// Acquire makes this process the owner of a slot, in a layout of the given number of slots.
	Acquire func(ctx context.Context, slot, slots int) (Slot, error)
	// IsFinal reports whether an error makes another attempt pointless.
	IsFinal func(error) bool
}

// Topology stores the number of slots, and returns the live replicas. These are methods of checkpoint.Topology and
// checkpoint.Leases.
type Topology interface {
	Heartbeat(ctx context.Context, owner string, ttl time.Duration) (checkpoint.Replicas, error)
	Slots(ctx context.Context, want int) (have int, err error)
	Relayout(ctx context.Context, r checkpoint.Relayout) error
}

// Slot is a slot that this process has acquired.
type Slot interface {
	State() checkpoint.SlotState
	// Open opens the slot's log and rolls its checkpoint forward. From then on it renews the lease until the context ends. It
	// calls the function fail if it can't. A slot that the present layout lacks is unused. Its log is of an earlier layout, so
	// data loss there is ignored, since it concerns no stream.
	Open(ctx context.Context, unused bool, fail context.CancelCauseFunc) error
	// Begin writes a record, and checkpoints it together with the offsets of other slots.
	Begin(ctx context.Context, record change.Control, offsets change.Offsets) error
	// Close releases the slot.
	Close()
}

// Run returns when the checkpoint has the configured number of slots. It waits until no replica with another number is live,
// and then changes the number. So during a rolling update the old replicas continue until the last of them has stopped.
func (r *Resharder) Run(ctx context.Context) error {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = r.Lease/10, r.Lease
	logged := ""
	defer r.Observer.Problem(0, nil)
	for {
		have, err := r.stored(ctx)
		if err == nil && have == r.Slots {
			return nil
		}
		if err == nil {
			err = (&layoutChange{Resharder: r, from: have, to: r.Slots}).run(ctx)
		}
		if err == nil || r.IsFinal(err) {
			return err
		}
		delay := retry.NextBackOff()
		if fault.Is[*otherLayoutError](err) {
			delay = min(delay, r.Lease/4)
		}
		if ctx.Err() == nil {
			r.report(err)
			if text := err.Error(); text != logged {
				logged = text
				r.Logger.Warn("the number of slots can't be changed yet; retrying", "reason", err)
			}
		}
		if wait.For(ctx, delay) != nil {
			return nil
		}
	}
}

// report notifies the observer of a failed attempt. If another replica has a slot, that replica reports.
func (r *Resharder) report(err error) {
	if others, ok := errors.AsType[*otherLayoutError](err); ok {
		r.Observer.Problem(0, nil)
		r.Observer.ReplicaStatus(ownership.Status{Replicas: len(others.members), Standby: err.Error()})
	} else if !fault.Is[*checkpoint.HeldError](err) && !fault.Is[*checkpoint.LayoutError](err) {
		r.Observer.ReplicaStatus(ownership.Status{}) // no other replica has the slots
		r.Observer.Problem(0, fmt.Errorf("change the number of slots: %w", err))
	}
}

func (r *Resharder) stored(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	return r.Topology.Slots(ctx, r.Slots)
}

// otherLayoutError says that replicas with another number of slots are live.
type otherLayoutError struct {
	want, have int
	members    []string
}

func (e *otherLayoutError) Error() string {
	return fmt.Sprintf("KUBECDC_SLOTS is %d here, but %d in the running replicas (%q): "+
		"standing by until they have stopped, or set it to %d",
		e.want, e.have, e.members, e.have)
}

package export

import (
	"context"
	"errors"

	"kubecdc/checkpoint"
	"kubecdc/export/ownership"
	"kubecdc/export/plan"
	"kubecdc/export/session"
	"kubecdc/internal/dependency"
	"kubecdc/internal/fault"
)

// ownSlots works on this replica's share of the slots. When another replica has changed the layout, it waits until its own
// number of slots is the layout again.
func ownSlots(ctx context.Context, config plan.Config, parts *plan.Watched, selected *plan.Selections) error {
	replica := ownership.Replica{Name: config.Owner, Slots: config.Slots, Lease: config.LeaseDuration,
		Leases: parts.Store, Sink: parts.SinkReach, APIServer: parts.APIReach,
		Watchdog: parts.Watchdog, Observer: parts.State, Logger: parts.Logger,
		Work: func(ctx context.Context, n int) error { return session.Run(ctx, n, config, parts, selected) }}
	if parts.Spools != nil {
		replica.Keeps = parts.Spools.Has
	}
	for ctx.Err() == nil {
		if err := session.NewResharder(config, parts).Run(ctx); err != nil {
			return err
		}
		awaitLeases(ctx, config, &parts.Parts)
		err := replica.Run(ctx)
		if !fault.Is[*checkpoint.LayoutError](err) || errors.Is(err, checkpoint.ErrFenced) {
			return err
		}
	}
	return nil
}

// awaitLeases waits until the checkpoint answers. Errors that do not end by themselves are left to the balancer.
func awaitLeases(ctx context.Context, config plan.Config, parts *plan.Parts) {
	_ = step(ctx, parts, dependency.Checkpoint, "the leases", func(ctx context.Context) error {
		_, err := parts.Store.Heartbeat(ctx, config.Owner, config.LeaseDuration)
		return err
	})
}

package export

import (
	"context"
	"errors"

	"kubecdc/checkpoint"
	"kubecdc/export/ownership"
	"kubecdc/internal/dependency"
	"kubecdc/internal/startup"
)

// ownSlots works on this replica's share of the slots. When another replica has changed the layout, it waits until its own
// number of slots is the layout again.
func ownSlots(ctx context.Context, config Config, parts *watchedParts, selected *selections) error {
	replica := ownership.Replica{Name: config.Owner, Slots: config.Slots, Lease: config.LeaseDuration,
		Leases: parts.Store, Sink: parts.sinkReach, APIServer: parts.apiReach,
		Watchdog: parts.watchdog, Observer: parts.Observer, Logger: parts.Logger,
		Work: func(ctx context.Context, n int) error { return newSlot(n, config, parts, selected).run(ctx) }}
	for ctx.Err() == nil {
		if err := newResharder(config, parts).Run(ctx); err != nil {
			return err
		}
		if err := firstHeartbeat(ctx, config, &parts.Parts); err != nil {
			return err
		}
		parts.Start.Done()
		err := replica.Run(ctx)
		var layout *checkpoint.LayoutError
		if !errors.As(err, &layout) || isFenced(err) {
			return err
		}
	}
	return nil
}

// firstHeartbeat waits until the checkpoint answers. All errors but a timeout are left to the balancer.
func firstHeartbeat(ctx context.Context, config Config, parts *Parts) error {
	err := parts.step(ctx, dependency.Checkpoint, "the leases", func(ctx context.Context) error {
		_, err := parts.Store.Heartbeat(ctx, config.Owner, config.LeaseDuration)
		return err
	})
	if timeout := (*startup.TimeoutError)(nil); errors.As(err, &timeout) {
		return err
	}
	return nil
}

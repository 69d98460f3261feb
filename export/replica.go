package export

import (
	"context"
	"errors"

	"kubecdc/checkpoint"
	"kubecdc/export/ownership"
	"kubecdc/internal/dependency"
	"kubecdc/internal/startup"
)

// leasesIn returns the dependency that stores the leases.
func (p *Parts) leasesIn() string {
	if p.Leases == checkpoint.Leases(p.Store) {
		return dependency.Checkpoint
	}
	return dependency.Leases
}

// ownSlots works on this replica's share of the slots. When another replica has changed the layout, it waits until its own
// number of slots is the layout again.
func ownSlots(ctx context.Context, config Config, parts Parts, selections *broadcaster) error {
	replica := ownership.Replica{Name: config.Owner, Slots: config.Slots, Lease: config.LeaseDuration,
		Leases: parts.Leases, LeasesIn: parts.leasesIn(), Sink: parts.reachability, Source: parts.source,
		Watchdog: parts.watchdog, Observer: parts.Observer, Logger: parts.Logger,
		Work: func(ctx context.Context, n int) error { return newSlot(n, config, parts, selections).run(ctx) }}
	for ctx.Err() == nil {
		if err := newResharder(config, parts).Run(ctx); err != nil {
			return err
		}
		if err := firstHeartbeat(ctx, config, parts); err != nil {
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

// firstHeartbeat waits until the server of the leases answers. All errors but a timeout are left to the balancer.
func firstHeartbeat(ctx context.Context, config Config, parts Parts) error {
	at := parts.StoreAt
	if parts.leasesIn() == dependency.Leases {
		at = parts.Server.Host()
	}
	var timeout *startup.TimeoutError
	err := parts.step(ctx, parts.leasesIn(), "the leases", at, func(ctx context.Context) error {
		_, err := parts.Leases.Heartbeat(ctx, config.Owner, config.LeaseDuration)
		return err
	})
	if errors.As(err, &timeout) {
		return err
	}
	return nil
}

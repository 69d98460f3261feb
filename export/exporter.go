// Package export connects source, sink and checkpoint: it runs streams (source/reflector), makes their changes durable in batches
// (sinks), and stores the positions (checkpoint). Each slot is one loop, which runs in sessions. Start reading at
// session/slot.go. The package knows neither Kafka nor SQL nor the watch protocol.
package export

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/live"
	"kubecdc/export/plan"
	"kubecdc/internal/dependency"
	"kubecdc/internal/fault"
	"kubecdc/internal/sqlitefile"
	"kubecdc/internal/wait"
	"kubecdc/source/discovery"
)

// Run exports until the context ends (nil: drained) or an error makes another attempt pointless.
func Run(ctx context.Context, config plan.Config, given plan.Parts) error {
	if err := prepare(ctx, &config, &given); err != nil {
		return err
	}
	parts, selected := plan.Watch(config.LeaseDuration, given), plan.NewSelections()
	group, ctx := errgroup.WithContext(ctx)
	for _, work := range []func(){
		func() {
			parts.Server.Follow(ctx, config.Resources, config.DiscoveryPoll, parts.Logger, func(s discovery.Selection) {
				parts.State.Fails(live.Selection, s.Lacking())
				config.Source.Recovery.SetServed(s.Served())
				selected.Publish(s)
			})
		},
		func() { wait.WatchStalls(ctx) },
		func() { parts.SinkReach.Probe(ctx, parts.Sink) },
		func() { parts.APIReach.Probe(ctx, parts.Server.Client()) },
		func() { wait.Every(ctx, time.Hour, func() { prune(ctx, &given, config.HistoryRetention) }) },
		func() { wait.Every(ctx, time.Minute, func() { measure(ctx, &given) }) },
		func() { storeSchemas(ctx, &given, selected) },
	} {
		group.Go(func() error { work(); return nil })
	}
	group.Go(func() error { return parts.Server.OtherCluster(ctx) })
	group.Go(func() error { return ownSlots(ctx, config, parts, selected) })
	group.Go(func() (err error) {
		for err == nil && wait.For(ctx, time.Second) == nil {
			err = checkpoint.InPlace(parts.Store)
		}
		return err
	})
	err := cmp.Or(group.Wait(), checkpoint.InPlace(parts.Store))
	if errors.Is(err, sqlitefile.ErrMoved) {
		parts.State.Fails(dependency.Checkpoint, err) // also while the file is written back
	}
	return err
}

// attemptTimeout limits one attempt at a step of the start. Discovery on a slow API server takes longest.
const attemptTimeout = 30 * time.Second

func step(ctx context.Context, parts *plan.Parts, server, waitsFor string, do func(context.Context) error) error {
	address := parts.StoreAt
	switch server {
	case dependency.Sink:
		address = parts.SinkAt
	case dependency.APIServer:
		address = parts.Server.Host()
	}
	return parts.Start.Do(ctx, dependency.Step{Awaited: waitsFor, Dependency: server, Address: address,
		Limit: attemptTimeout}, do)
}

// bindLog verifies that the checkpoint belongs to the sink's log, and reads the key of redacted hashes from the checkpoint.
func bindLog(ctx context.Context, config *plan.Config, parts *plan.Parts) error {
	identity := ""
	if parts.Spools != nil {
		identity = parts.Spools.Log(ctx)
	}
	if identity != "" { // when the sink is opened, it verifies that it is the one with this identity
		parts.Logger.Warn("there is a spool: the start does not wait for the sink", "folder", parts.Spools.Path)
		if err := bindTo(ctx, config, parts, identity); !fault.Is[*checkpoint.OtherLogError](err) {
			parts.Log = identity
			return err
		}
	}
	err := step(ctx, parts, dependency.Sink, "the sink to say which log it is", func(ctx context.Context) (err error) {
		identity, err = parts.Sink.Identity(ctx)
		return err
	})
	if err != nil {
		return err
	}
	parts.Log = identity
	return bindTo(ctx, config, parts, identity)
}

func bindTo(ctx context.Context, config *plan.Config, parts *plan.Parts, identity string) error {
	return step(ctx, parts, dependency.Checkpoint, "the checkpoint to say which log it is of", func(ctx context.Context) error {
		if err := parts.Store.BindLog(ctx, identity); err != nil {
			return err
		}
		return config.UseKey(ctx, parts.Store)
	})
}

// prepare verifies that the checkpoint belongs to the log, that the resources exist, and that the log does not have them under
// another selection.
func prepare(ctx context.Context, config *plan.Config, parts *plan.Parts) error {
	if err := bindLog(ctx, config, parts); err != nil {
		return err
	}
	var served discovery.Served
	var selected []change.Resource
	var unknown []discovery.Pattern // nothing served matches them, and no stream in the checkpoint
	err := step(ctx, parts, dependency.APIServer, "the API server to say what it serves", func(ctx context.Context) (err error) {
		if served, err = parts.Server.Served(ctx); err != nil {
			return err
		}
		selected, unknown = discovery.Select(config.Resources, served)
		unknown, err = withoutStreams(ctx, parts, parts.Server.Missing(ctx, unknown))
		return err
	})
	if err != nil {
		return err
	}
	if len(unknown) > 0 {
		return discovery.Unknown(unknown, served)
	}
	selected = slices.DeleteFunc(selected, func(r change.Resource) bool { return len(config.StreamsOf(r)) == 0 })
	err = step(ctx, parts, dependency.Checkpoint, "the checkpoint to say which streams the log has",
		func(ctx context.Context) error {
			stored, err := parts.Store.Streams(ctx)
			if err != nil {
				return err
			}
			return config.RefuseOverlaps(selected, stored)
		})
	if err != nil {
		return err
	}
	for _, warning := range config.Warnings(served) {
		parts.Logger.Warn(warning)
	}
	parts.Logger.Info("starting the export", "cluster", config.Cluster, "server", parts.Server.Host(), "resources", len(selected))
	return nil
}

// withoutStreams removes the patterns that match streams in the checkpoint: their resource was removed, and the removal is
// exported too.
func withoutStreams(ctx context.Context, parts *plan.Parts, unknown []discovery.Pattern) ([]discovery.Pattern, error) {
	if len(unknown) == 0 {
		return nil, nil
	}
	streams, err := parts.Store.Streams(ctx)
	return slices.DeleteFunc(unknown, func(p discovery.Pattern) bool {
		return slices.ContainsFunc(streams, func(s change.Position) bool { return p.Names(change.ResourceOf(s.Stream)) })
	}), err
}

func measure(ctx context.Context, parts *plan.Parts) {
	if size, err := parts.Store.Size(ctx); err == nil {
		parts.State.CheckpointSize(size)
	} else {
		parts.Logger.Debug("failed to measure the checkpoint; trying again in a minute", "error", err)
	}
}

func prune(ctx context.Context, parts *plan.Parts, age time.Duration) {
	if err := parts.Store.Prune(ctx, age); err != nil && ctx.Err() == nil {
		parts.Logger.Warn("failed to prune the history of checkpoints; retrying in an hour", "error", err)
	}
}

// Package export joins the parts: it reads streams (source/reflector), makes batches durable (sinks) and remembers how far
// it is (checkpoint). One slot is one loop, in sessions; start reading at slot.go. It knows no Kafka, no SQL and no watch.
//
// What needs less than a session has a package of its own: which replica works on which slots (ownership), another number of
// slots (resharding), gathering batches (batching), a lost checkpoint (rebuild), servers that do not answer (dependency). None of
// them reads a stream or opens a sink.
package export

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/dependency"
	"kubecdc/export/ownership"
	"kubecdc/internal/startup"
	"kubecdc/sinks"
	"kubecdc/source/discovery"
	"kubecdc/source/reflector"
)

// Config says what to export and in which measures.
type Config struct {
	Cluster       string
	Resources     []discovery.Pattern
	Content       Content
	Namespaces    []string // none: all
	LabelSelector string
	FieldSelector string
	Before        bool // attach before-images, and keep bodies in the inventory

	Slots            int
	Owner            string // names this process in the lease
	LeaseDuration    time.Duration
	Limits           batching.Limits
	BufferChanges    int
	BufferBytes      int64
	BodyCacheBytes   int64
	DiscoveryPoll    time.Duration
	HistoryRetention time.Duration
	ShutdownTimeout  time.Duration
	Source           reflector.Options
}

// Parts are what the exporter works with. Store is bound to the cluster. Leases is Store when nil.
type Parts struct {
	Server   *discovery.Server
	Store    checkpoint.Store
	Leases   checkpoint.Leases
	Sink     sinks.Sink
	Observer Observer
	Logger   *slog.Logger

	Start           *startup.Steps // may be nil
	StoreAt, SinkAt string         // addresses, for messages

	watchdog     *dependency.Watchdog
	reachability *ownership.Reachability
}

// Run exports until the context ends (nil: drained) or it can't go on.
func Run(ctx context.Context, config Config, parts Parts) error {
	if err := prepare(ctx, &config, &parts); err != nil {
		return err
	}
	h := newHub()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		parts.Server.Follow(ctx, config.Resources, config.DiscoveryPoll, parts.Logger, h.publish)
		return nil
	})
	group.Go(func() error {
		parts.reachability.Probe(ctx, parts.Sink)
		return nil
	})
	group.Go(func() error {
		prune(ctx, parts, config.HistoryRetention)
		return nil
	})
	group.Go(func() error { return ownSlots(ctx, config, parts, h) })
	return group.Wait()
}

// askLimit bounds one attempt at a step of the start. Reading what a slow API server serves takes longest.
const askLimit = 30 * time.Second

// step is a step of the start.
func (p *Parts) step(ctx context.Context, waitsFor, at string, do func(context.Context) error) error {
	return p.Start.Do(ctx, startup.Step{For: waitsFor, At: at, Limit: askLimit}, do)
}

// bindLog makes sure that the sink is the log that the checkpoint tells of, and takes the key of hashes from there.
func bindLog(ctx context.Context, config *Config, parts *Parts) error {
	var identity string
	err := parts.step(ctx, "the sink to say which log it is", parts.SinkAt, func(ctx context.Context) (err error) {
		identity, err = parts.Sink.Identity(ctx)
		return err
	})
	if err != nil {
		return err
	}
	return parts.step(ctx, "the checkpoint to say which log it is of", parts.StoreAt, func(ctx context.Context) error {
		if err := parts.Store.BindLog(ctx, identity); err != nil {
			return err
		}
		return config.useKey(ctx, parts.Store)
	})
}

// selection is what the patterns select of what is served; unknown are those that name nothing, now or before.
type selection struct {
	served   discovery.Served
	selected []change.Resource
	unknown  []discovery.Pattern
}

func selectServed(ctx context.Context, config *Config, parts *Parts) (*selection, error) {
	var s selection
	err := parts.step(ctx, "the API server to say what it serves", parts.Server.Host(), func(ctx context.Context) (err error) {
		if s.served, err = parts.Server.Served(ctx); err != nil {
			return err
		}
		s.selected, s.unknown = discovery.Select(config.Resources, s.served)
		s.unknown, err = notBegun(ctx, parts, parts.Server.Missing(ctx, s.unknown))
		return err
	})
	return &s, err
}

// prepare makes sure that this is the log of the checkpoint and that the resources exist.
func prepare(ctx context.Context, config *Config, parts *Parts) error {
	if parts.Leases == nil {
		parts.Leases = parts.Store
	}
	parts.watchdog = dependency.NewWatchdog(parts.Observer, parts.Logger)
	parts.reachability = ownership.NewReachability(config.LeaseDuration, parts.watchdog)
	if err := bindLog(ctx, config, parts); err != nil {
		return err
	}
	s, err := selectServed(ctx, config, parts)
	if err != nil {
		return err
	}
	if len(s.unknown) > 0 {
		return discovery.Unknown(s.unknown, s.served)
	}
	selected := slices.DeleteFunc(s.selected, func(r change.Resource) bool { return len(config.StreamsOf(r)) == 0 })
	for _, doubt := range config.Doubts(s.served) {
		parts.Logger.Warn(doubt)
	}
	parts.Logger.Info("starting", "cluster", config.Cluster, "server", parts.Server.Host(), "resources", len(selected))
	return nil
}

// notBegun leaves out of the unknown patterns those that the checkpoint has streams of: what was removed is still to be told.
func notBegun(ctx context.Context, parts *Parts, unknown []discovery.Pattern) ([]discovery.Pattern, error) {
	if len(unknown) == 0 {
		return nil, nil
	}
	streams, err := parts.Store.Streams(ctx)
	return slices.DeleteFunc(unknown, func(p discovery.Pattern) bool {
		return slices.ContainsFunc(streams, func(s change.Position) bool { return p.Names(change.ParseStream(s.Stream).Resource) })
	}), err
}

// prune forgets old history once an hour.
func prune(ctx context.Context, parts Parts, age time.Duration) {
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		if err := parts.Store.Prune(ctx, age); err != nil && ctx.Err() == nil {
			parts.Logger.Warn("old checkpoints could not be pruned; it is tried again in an hour", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Package export connects source, sink and checkpoint: it runs streams (source/reflector), makes their changes durable in
// batches (sinks), and stores the positions (checkpoint). Each slot is one loop, in sessions; start reading at slot.go. The
// package knows neither Kafka nor SQL nor the watch protocol.
//
// What does not need a session has a package of its own: the assignment of slots to replicas (ownership), another number of
// slots (resharding), gathering batches (batching), a lost checkpoint (rebuild), and servers that do not answer (dependency).
package export

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/ownership"
	"kubecdc/internal/dependency"
	"kubecdc/internal/startup"
	"kubecdc/sinks"
	"kubecdc/source/discovery"
	"kubecdc/source/reflector"
)

// Config says what to export, and the limits.
type Config struct {
	Cluster        string
	Resources      []discovery.Pattern
	Content        Content
	Namespaces     []string // none: all
	LabelSelector  string
	FieldSelector  string
	SnapshotTopics bool // the sink has topics that snapshots on demand can be written to
	Before         bool // write before-images, and store bodies in the inventory

	Slots          int
	Owner          string // name of this process in the leases
	LeaseDuration  time.Duration
	Limits         batching.Limits
	BufferChanges  int
	BufferBytes    int64
	BodyCacheBytes int64 // of packed bodies; what is pending for the checkpoint shares their memory
	// CheckpointInterval is how often the checkpoint follows the log; 0: with each batch, as it must where the log can't be read
	// back.
	CheckpointInterval time.Duration
	CheckpointBytes    int64 // of one commit of the checkpoint: it does not wait for the interval when it has come to so many
	DiscoveryPoll      time.Duration
	HistoryRetention   time.Duration
	ShutdownTimeout    time.Duration
	Source             reflector.Options
}

// Parts are what the exporter works with.
type Parts struct {
	Server   *discovery.Server
	Store    checkpoint.Store  // bound to the cluster
	Leases   checkpoint.Leases // nil: Store
	Sink     sinks.Sink
	Observer Observer
	Logger   *slog.Logger

	Start           *startup.Steps // may be nil
	StoreAt, SinkAt string         // addresses, for messages

	watchdog     *dependency.Watchdog
	reachability *ownership.Reachability // of the sink
	source       *ownership.Reachability // of the API server
}

// Run exports until the context ends (nil: drained) or an error makes another attempt pointless.
func Run(ctx context.Context, config Config, parts Parts) error {
	if err := prepare(ctx, &config, &parts); err != nil {
		return err
	}
	selections := newBroadcaster()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		parts.Server.Follow(ctx, config.Resources, config.DiscoveryPoll, parts.Logger, selections.publish)
		return nil
	})
	group.Go(func() error {
		parts.reachability.Probe(ctx, parts.Sink)
		return nil
	})
	group.Go(func() error {
		parts.source.Probe(ctx, parts.Server.Client())
		return nil
	})
	group.Go(func() error {
		prune(ctx, parts, config.HistoryRetention)
		return nil
	})
	group.Go(func() error {
		measure(ctx, parts)
		return nil
	})
	group.Go(func() error { return parts.Server.OtherCluster(ctx) })
	group.Go(func() error { return ownSlots(ctx, config, parts, selections) })
	return group.Wait()
}

// attemptTimeout limits one attempt at a step of the start. Discovery on a slow API server takes longest.
const attemptTimeout = 30 * time.Second

// step runs a step of the start.
func (p *Parts) step(ctx context.Context, on, waitsFor, at string, do func(context.Context) error) error {
	return p.Start.Do(ctx, startup.Step{For: waitsFor, On: on, At: at, Limit: attemptTimeout}, do)
}

// bindLog verifies that the checkpoint belongs to the sink's log, and reads the key of redacted hashes from the checkpoint.
func bindLog(ctx context.Context, config *Config, parts *Parts) error {
	var identity string
	err := parts.step(ctx, dependency.Sink, "the sink to say which log it is", parts.SinkAt, func(ctx context.Context) (err error) {
		identity, err = parts.Sink.Identity(ctx)
		return err
	})
	if err != nil {
		return err
	}
	return parts.step(ctx, dependency.Checkpoint, "the checkpoint to say which log it is of", parts.StoreAt, func(ctx context.Context) error {
		if err := parts.Store.BindLog(ctx, identity); err != nil {
			return err
		}
		return config.UseKey(ctx, parts.Store)
	})
}

// selection is what the patterns select of the served resources. A pattern is unknown if nothing served matches it, and no
// stream in the checkpoint.
type selection struct {
	served   discovery.Served
	selected []change.Resource
	unknown  []discovery.Pattern
}

func selectServed(ctx context.Context, config *Config, parts *Parts) (*selection, error) {
	var s selection
	err := parts.step(ctx, dependency.APIServer, "the API server to say what it serves", parts.Server.Host(), func(ctx context.Context) (err error) {
		if s.served, err = parts.Server.Served(ctx); err != nil {
			return err
		}
		s.selected, s.unknown = discovery.Select(config.Resources, s.served)
		s.unknown, err = withoutStreams(ctx, parts, parts.Server.Missing(ctx, s.unknown))
		return err
	})
	return &s, err
}

// prepare verifies that the checkpoint belongs to the log, that the resources exist, and that the log has no other selection of them.
func prepare(ctx context.Context, config *Config, parts *Parts) error {
	if parts.Leases == nil {
		parts.Leases = parts.Store
	}
	parts.watchdog = dependency.NewWatchdog(parts.Observer, parts.Logger)
	parts.reachability = ownership.NewReachability(config.LeaseDuration, dependency.Sink, parts.watchdog)
	parts.source = ownership.NewReachability(config.LeaseDuration, dependency.APIServer, parts.watchdog)
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
	err = parts.step(ctx, dependency.Checkpoint, "the checkpoint to say which streams the log has", parts.StoreAt, func(ctx context.Context) error {
		stored, err := parts.Store.Streams(ctx)
		return cmp.Or(err, config.RefuseOverlaps(selected, stored))
	})
	if err != nil {
		return err
	}
	for _, warning := range config.Warnings(s.served) {
		parts.Logger.Warn(warning)
	}
	parts.Logger.Info("starting the export", "cluster", config.Cluster, "server", parts.Server.Host(), "resources", len(selected))
	return nil
}

// withoutStreams removes the patterns that match streams in the checkpoint: their resource was removed, which is exported too.
func withoutStreams(ctx context.Context, parts *Parts, unknown []discovery.Pattern) ([]discovery.Pattern, error) {
	if len(unknown) == 0 {
		return nil, nil
	}
	streams, err := parts.Store.Streams(ctx)
	return slices.DeleteFunc(unknown, func(p discovery.Pattern) bool {
		return slices.ContainsFunc(streams, func(s change.Position) bool { return p.Names(change.ResourceOf(s.Stream)) })
	}), err
}

// measure tells the size of the checkpoint once a minute.
func measure(ctx context.Context, parts Parts) {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		if size, err := parts.Store.Size(ctx); err == nil {
			parts.Observer.CheckpointSize(size)
		} else {
			parts.Logger.Debug("failed to measure the checkpoint; trying again in a minute", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// prune deletes old rows of the history of checkpoints once an hour.
func prune(ctx context.Context, parts Parts, age time.Duration) {
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		if err := parts.Store.Prune(ctx, age); err != nil && ctx.Err() == nil {
			parts.Logger.Warn("failed to prune the history of checkpoints; retrying in an hour", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

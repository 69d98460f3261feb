// Package export connects source, sink and checkpoint: it runs streams (source/reflector), makes their changes durable in batches
// (sinks), and stores the positions (checkpoint). Each slot is one loop, which runs in sessions. Start reading at slot.go. The
// package knows neither Kafka nor SQL nor the watch protocol.
//
// What does not need a session has a package of its own:
//   - ownership: the assignment of slots to replicas
//   - resharding: changes of the number of slots
//   - batching: collecting and preparing batches
//   - inventory: the state of a log that can't return it
//   - rebuild: the recovery of a lost checkpoint
//   - dependency: servers that do not answer
package export

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/live"
	"kubecdc/export/ownership"
	"kubecdc/internal/dependency"
	"kubecdc/internal/fault"
	"kubecdc/internal/sqlitefile"
	"kubecdc/internal/wait"
	"kubecdc/sinks"
	"kubecdc/sinks/spool"
	"kubecdc/source/discovery"
	"kubecdc/source/reflector"
)

// Config says what to export, and within which limits.
type Config struct {
	Cluster        string
	Resources      []discovery.Pattern
	Content        Content
	Namespaces     []string // empty: all
	LabelSelector  string
	FieldSelector  string
	SnapshotTopics bool // the sink has topics that snapshots on demand can be written to
	TellsWhenRead  bool // the sink does not write who changed what
	Before         bool // write before-images, and store bodies in the inventory

	Slots          int
	Owner          string // name of this process in the leases
	LeaseDuration  time.Duration
	Limits         batching.Limits
	BufferChanges  int
	BufferBytes    int64
	BodyCacheBytes int64 // for the bodies of objects that change often
	// CheckpointInterval is how often the checkpoint is updated to match the log. If it is 0, that happens with each batch, which
	// is necessary where the log can't be read back.
	CheckpointInterval time.Duration
	CheckpointBytes    int64 // a commit of the checkpoint does not wait for the interval once it is this large
	DiscoveryPoll      time.Duration
	HistoryRetention   time.Duration
	ShutdownTimeout    time.Duration
	Source             reflector.Options
}

// Parts are what the exporter works with.
type Parts struct {
	Server *discovery.Server
	Store  checkpoint.Store // bound to the cluster
	Sink   sinks.Sink
	Spools *spool.Folder  // if nil, nothing is read while the sink is unreachable
	State  *live.Exporter // is told what happens
	Logger *slog.Logger

	Start           *dependency.Steps // may be nil
	StoreAt, SinkAt string            // addresses, for messages

	log string // the identity of the sink's log, or empty if it was not asked yet because there are spools
}

// watchedParts are the parts with what watches their servers.
type watchedParts struct {
	Parts
	watchdog            *dependency.Watchdog
	sinkReach, apiReach *ownership.Reachability
	bell                *bell
}

func watch(lease time.Duration, p Parts) *watchedParts {
	w := dependency.NewWatchdog(p.State, p.Logger)
	return &watchedParts{p, w, ownership.NewReachability(lease, dependency.Sink, w), ownership.NewReachability(lease, dependency.APIServer, w), newBell()}
}

// Run exports until the context ends (nil: drained) or an error makes another attempt pointless.
func Run(ctx context.Context, config Config, given Parts) error {
	if err := prepare(ctx, &config, &given); err != nil {
		return err
	}
	parts, selected := watch(config.LeaseDuration, given), newSelections()
	group, ctx := errgroup.WithContext(ctx)
	for _, work := range []func(){
		func() {
			parts.Server.Follow(ctx, config.Resources, config.DiscoveryPoll, parts.Logger, func(s discovery.Selection) {
				parts.State.Fails(live.Selection, s.Lacking())
				config.Source.Recovery.SetServed(s.Served())
				selected.publish(s)
			})
		},
		func() { wait.WatchStalls(ctx) },
		func() { parts.sinkReach.Probe(ctx, parts.Sink) },
		func() { parts.apiReach.Probe(ctx, parts.Server.Client()) },
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

func (p *Parts) step(ctx context.Context, server, waitsFor string, do func(context.Context) error) error {
	address := p.StoreAt
	switch server {
	case dependency.Sink:
		address = p.SinkAt
	case dependency.APIServer:
		address = p.Server.Host()
	}
	return p.Start.Do(ctx, dependency.Step{Awaited: waitsFor, Dependency: server, Address: address, Limit: attemptTimeout}, do)
}

// bindLog verifies that the checkpoint belongs to the sink's log, and reads the key of redacted hashes from the checkpoint.
func bindLog(ctx context.Context, config *Config, parts *Parts) error {
	identity := ""
	if parts.Spools != nil {
		identity = parts.Spools.Log(ctx)
	}
	if identity != "" { // when the sink is opened, it verifies that it is the one with this identity
		parts.Logger.Warn("there is a spool: the start does not wait for the sink", "folder", parts.Spools.Path)
		if err := bindTo(ctx, config, parts, identity); !fault.Is[*checkpoint.OtherLogError](err) {
			parts.log = identity
			return err
		}
	}
	err := parts.step(ctx, dependency.Sink, "the sink to say which log it is", func(ctx context.Context) (err error) {
		identity, err = parts.Sink.Identity(ctx)
		return err
	})
	if err != nil {
		return err
	}
	parts.log = identity
	return bindTo(ctx, config, parts, identity)
}

func bindTo(ctx context.Context, config *Config, parts *Parts, identity string) error {
	return parts.step(ctx, dependency.Checkpoint, "the checkpoint to say which log it is of", func(ctx context.Context) error {
		if err := parts.Store.BindLog(ctx, identity); err != nil {
			return err
		}
		return config.UseKey(ctx, parts.Store)
	})
}

// prepare verifies that the checkpoint belongs to the log, that the resources exist, and that the log does not have them under
// another selection.
func prepare(ctx context.Context, config *Config, parts *Parts) error {
	if err := bindLog(ctx, config, parts); err != nil {
		return err
	}
	var served discovery.Served
	var selected []change.Resource
	var unknown []discovery.Pattern // nothing served matches them, and no stream in the checkpoint
	err := parts.step(ctx, dependency.APIServer, "the API server to say what it serves", func(ctx context.Context) (err error) {
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
	err = parts.step(ctx, dependency.Checkpoint, "the checkpoint to say which streams the log has", func(ctx context.Context) error {
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
func withoutStreams(ctx context.Context, parts *Parts, unknown []discovery.Pattern) ([]discovery.Pattern, error) {
	if len(unknown) == 0 {
		return nil, nil
	}
	streams, err := parts.Store.Streams(ctx)
	return slices.DeleteFunc(unknown, func(p discovery.Pattern) bool {
		return slices.ContainsFunc(streams, func(s change.Position) bool { return p.Names(change.ResourceOf(s.Stream)) })
	}), err
}

func measure(ctx context.Context, parts *Parts) {
	if size, err := parts.Store.Size(ctx); err == nil {
		parts.State.CheckpointSize(size)
	} else {
		parts.Logger.Debug("failed to measure the checkpoint; trying again in a minute", "error", err)
	}
}

func prune(ctx context.Context, parts *Parts, age time.Duration) {
	if err := parts.Store.Prune(ctx, age); err != nil && ctx.Err() == nil {
		parts.Logger.Warn("failed to prune the history of checkpoints; retrying in an hour", "error", err)
	}
}

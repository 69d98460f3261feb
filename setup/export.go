package setup

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/config"
	"kubecdc/export/batching"
	"kubecdc/export/plan"
	"kubecdc/redact"
	"kubecdc/sinks"
	"kubecdc/source/discovery"
	"kubecdc/source/reflector"
)

// ExportConfig turns the settings into the configuration of export, except for the name of the cluster.
func ExportConfig(c *config.Config) (plan.Config, error) {
	resources, err := discovery.ParsePatterns(c.Source.Resources)
	if err != nil {
		return plan.Config{}, fmt.Errorf("KUBECDC_RESOURCES: %w", err)
	}
	content, err := contentOf(c)
	if err != nil {
		return plan.Config{}, err
	}
	if path, err := c.SQLitePath(""); SinkOf(c).InCheckpoint && path == "" {
		if err != nil {
			return plan.Config{}, err
		}
		return plan.Config{}, errTwoPlaces
	}
	cache, commit := checkpointMemory(c, SinkOf(c).Kind)
	return plan.Config{
		Resources: resources, Content: content, Namespaces: c.Source.Namespaces,
		LabelSelector: c.Source.LabelSelector, FieldSelector: c.Source.FieldSelector, Before: c.Records.Before == "full" ||
			SinkOf(c).Deltas,
		SnapshotTopics: SinkOf(c).SnapshotTopics, TellsWhenRead: SinkOf(c).Deltas,
		Slots: c.Slots.Count, Owner: Owner(), LeaseDuration: c.Slots.LeaseDuration,
		Limits: batching.Limits{MaxChanges: c.Batch.MaxChanges, MaxBytes: int64(c.Batch.MaxBytes), Linger: c.Batch.Linger,
			Watermark: c.Source.Watermarks},
		BufferChanges: c.Batch.BufferChanges, BufferBytes: int64(c.Batch.BufferBytes), BodyCacheBytes: cache,
		CheckpointInterval: checkpointInterval(c), CheckpointBytes: commit,
		DiscoveryPoll: time.Minute, HistoryRetention: c.Checkpoint.Retention, ShutdownTimeout: c.Process.ShutdownTimeout,
		Source: sourceOptions(c),
	}, nil
}

// checkpointMemory returns the size of a slot's cache of bodies, and the size of one commit to the checkpoint. Up to two commits
// are pending for the checkpoint while one is written. The embedded log has none, and reads a body that is not cached by a query
// of its own. Large commits save work: an object that changes again and again is packed and written once. A commit to Postgres is
// one message, for which this process needs twice its size.
func checkpointMemory(c *config.Config, sink sinks.Kind) (cache, commit int64) {
	eighth := int64(c.Batch.BufferBytes) / int64(c.Slots.Count) / 8
	if sink.InCheckpoint {
		return 24 * eighth, 0
	}
	return 8 * eighth, 2 * eighth
}

// checkpointInterval is 0 if the log can't be read back when the checkpoint is behind.
func checkpointInterval(c *config.Config) time.Duration {
	if !SinkOf(c).CheckpointMayForget {
		return 0
	}
	return c.Checkpoint.Interval
}

// contentOf returns which parts of objects are exported.
func contentOf(c *config.Config) (plan.Content, error) {
	metadataOnly, err := discovery.ParsePatterns(c.Records.MetadataOnly)
	if err != nil {
		return plan.Content{}, fmt.Errorf("KUBECDC_METADATA_ONLY: %w", err)
	}
	redacted, err := fieldsOf(c.Records.Redact)
	if err != nil {
		return plan.Content{}, fmt.Errorf("KUBECDC_REDACT: %w", err)
	}
	ignored, err := fieldsOf(c.Records.IgnoreFields)
	if err != nil {
		return plan.Content{}, fmt.Errorf("KUBECDC_IGNORE_FIELDS: %w", err)
	}
	return plan.Content{Secrets: redact.Mode(c.Records.Secrets), MetadataOnly: metadataOnly, Redact: redacted, Ignore: ignored,
		NoUpdates: !slices.Contains(c.Records.Ops, change.Update.String()), NoManagedFields: c.Records.ManagedFields == "drop",
		Key: redact.Key(c.Records.SecretsKey.Reveal())}, nil
}

func fieldsOf(setting config.List) (all []plan.Field, err error) {
	fields, err := config.Fields(setting)
	if err != nil {
		return nil, err
	}
	for _, f := range fields {
		resource, err := discovery.ParsePattern(f.Resource)
		if err != nil {
			return nil, err
		}
		all = append(all, plan.Field{Resource: resource, Path: f.Path})
	}
	return all, nil
}

// firstQPS is how many requests a second a recovery starts with.
const firstQPS = 100

// backfillParallel is the highest number of concurrent requests for one gap. The limiter adapts the requests for all gaps to the
// latency of the server.
const backfillParallel = 32

// listsAtOnce is the number of concurrent lists. It must be high enough to keep the sink busy while some lists wait for the
// server. But a list takes up to ten seats of some hundred (API Priority and Fairness), so too many would fill a small API
// server.
const listsAtOnce = 8

func sourceOptions(c *config.Config) reflector.Options {
	options := reflector.DefaultOptions()
	options.PageSize = c.Source.PageSize
	options.Watermark, options.Proofs = c.Source.Watermarks, c.Source.Proofs
	if list := c.Source.List; list != "pages" {
		options.Streaming = reflector.NewStreamingLists(list == "stream")
	}
	options.Lists = reflector.NewListLimiter(listsAtOnce)
	if c.Recovery.Backfill {
		most := c.Recovery.BackfillMaxQPS
		options.Recovery = reflector.NewRecovery(min(firstQPS, most), most, slog.Default())
		options.Recovery.Parallel, options.Recovery.MaxRevisions = backfillParallel, uint64(c.Recovery.BackfillMaxRevisions)
	}
	return options
}

// Owner names this process in its leases. The name is readable, and unique to this start.
func Owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), strings.ToLower(rand.Text()[:6]))
}

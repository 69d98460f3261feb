package setup

import (
	"context"
	"fmt"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/postgres"
	"kubecdc/checkpoint/sqlite"
	"kubecdc/config"
	"kubecdc/internal/dependency"
	logsqlite "kubecdc/sinks/sqlite"
)

// OpenStore opens the checkpoint for an exporter, which owns an SQLite file. It also returns the checkpoint's location, without
// passwords.
func OpenStore(
	ctx context.Context, start *dependency.Steps, c *config.Config, cluster *Cluster,
) (store checkpoint.Store, where string, err error) {
	return openStore(ctx, start, c, cluster, sqlite.Open)
}

// ShareStore opens the checkpoint for a command. Exporters may run meanwhile, since it does not own an SQLite file. It makes
// one attempt. It also returns the checkpoint's location, without passwords.
func ShareStore(ctx context.Context, c *config.Config, cluster *Cluster) (store checkpoint.Store, where string, err error) {
	return openStore(ctx, nil, c, cluster, sqlite.Share)
}

func openStore(
	ctx context.Context, start *dependency.Steps, c *config.Config, cluster *Cluster,
	open func(ctx context.Context, path string) (*sqlite.Store, error),
) (_ checkpoint.Store, where string, _ error) {
	path, err := c.SQLitePath(cluster.Cluster)
	if err != nil {
		return nil, "", err
	}
	step := dependency.Step{Awaited: "the checkpoint", Dependency: dependency.Checkpoint, Address: c.Checkpoint.Location.String(),
		Limit: OpenLimit}
	if path != "" {
		step.Address, step.Limit = "sqlite:"+path, 0 // taking over the checkpoint of an older release may take long
	}
	var store checkpoint.Store // not used after an error: an attempt may outlive Do
	err = start.Do(ctx, step, func(ctx context.Context) (err error) {
		if path != "" {
			store, err = inFile(ctx, c, cluster.Cluster, path, open)
			return err
		}
		store, err = postgres.Open(ctx, postgres.Config{URL: c.Checkpoint.Location.Reveal(),
			PasswordFile: c.Checkpoint.PasswordFile, Relaxed: SinkOf(c).CheckpointMayForget})
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return store, step.Address, nil
}

// fileStore is a checkpoint in a file.
type fileStore interface {
	checkpoint.Store
	checkpoint.Past
}

// inFile opens the checkpoint in a file, where the log may be too. For an exporter, the settings say whether the log is in the
// file. For a command, the file itself shows it.
func inFile(
	ctx context.Context, c *config.Config, cluster, path string,
	open func(ctx context.Context, path string) (*sqlite.Store, error),
) (fileStore, error) {
	store, err := open(ctx, path)
	if err != nil {
		return nil, err
	}
	hasLog := SinkOf(c).InCheckpoint
	if !store.File().Owned() {
		hasLog, err = logsqlite.Holds(ctx, store.File(), cluster)
	}
	switch {
	case err != nil:
		store.Close()
		return nil, err
	case hasLog:
		e, err := newEmbedded(ctx, store, cluster)
		if err != nil {
			return nil, err
		}
		return e, nil
	}
	return store, nil
}

// OpenPast opens the cluster's checkpoint for reading.
func OpenPast(ctx context.Context, settings *config.Config, cluster string) (store checkpoint.Past, err error) {
	path, err := settings.SQLitePath(cluster)
	if err != nil {
		return nil, err
	}
	if path != "" {
		var file fileStore
		file, err = inFile(ctx, settings, cluster, path, sqlite.Share)
		store = file
	} else {
		store, err = postgres.OpenPast(ctx, postgres.Config{URL: settings.Checkpoint.Location.Reveal(),
			PasswordFile: settings.Checkpoint.PasswordFile})
	}
	if err != nil {
		return nil, fmt.Errorf("open the checkpoint: %w", err)
	}
	if err := store.Find(ctx, cluster); err != nil {
		store.Close()
		return nil, err
	}
	return store, nil
}

package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"kubecdc/config"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
	"kubecdc/sinks/postgres"
	"kubecdc/sinks/sqlite"
)

// OpenLog opens the log of a cluster for reading, for a command.
func OpenLog(ctx context.Context, command string, settings *config.Config, cluster string) (sinks.ReadCloser, error) {
	if err := mustBeReadable(command, settings); err != nil {
		return nil, err
	}
	var reader sinks.ReadCloser
	step := dependency.Step{Awaited: "the log", Address: SinkAddress(settings), Limit: OpenLimit}
	err := dependency.Once(ctx, step, func(ctx context.Context) (err error) {
		reader, err = SinkOf(settings).read(ctx, settings, cluster)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open the log of cluster %s: %w", cluster, err)
	}
	if err := mustHave(ctx, reader, settings, cluster); err != nil {
		reader.Close()
		return nil, err
	}
	return reader, nil
}

func mustBeReadable(command string, settings *config.Config) error {
	if SinkOf(settings).Readable() {
		return nil
	}
	return &config.Error{Problems: []config.Problem{{Setting: "KUBECDC_SINK", Value: settings.Sink.Kind,
		What: "what it writes can't be read back",
		Fix:  "set it to the sink whose log exporter " + command + " shall read: sqlite, kafka or postgres"}}}
}

// Clusters returns the names of the clusters whose logs the settings locate, and the settings to read these logs with.
func Clusters(ctx context.Context, command string, settings config.Config) (names []string, reading *config.Config, err error) {
	if err := mustBeReadable(command, &settings); err != nil {
		return nil, nil, err
	}
	step := dependency.Step{Awaited: "the log", Address: SinkAddress(&settings), Limit: OpenLimit}
	err = dependency.Once(ctx, step, func(ctx context.Context) (err error) {
		names, err = SinkOf(&settings).clusters(ctx, &settings)
		return err
	})
	return names, &settings, err
}

func clustersOfFiles(ctx context.Context, c *config.Config) (names []string, err error) {
	if c.Checkpoint.Location.Reveal() != "" {
		path, err := c.SQLitePath("")
		if err == nil && path == "" {
			err = errTwoPlaces
		}
		if err != nil {
			return nil, err
		}
		return sqlite.Clusters(ctx, path)
	}
	all, err := EmbeddedLogs(ctx, c)
	for _, l := range all {
		names = append(names, l.Cluster)
	}
	return names, err
}

// clustersOfMirror finds the clusters in the mirror. Else the topics would be read once for each.
func clustersOfMirror(ctx context.Context, c *config.Config) ([]string, error) {
	path, err := c.MirrorFile()
	if err != nil {
		return nil, err
	}
	names, err := sqlite.Clusters(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("several clusters of topics are asked through their mirror, which is not there: " +
			"start exporter serve, which fills it")
	}
	c.Sink.Kind, c.Checkpoint.Location = sqlite.Kind.Name, config.DSN("sqlite:"+path)
	return names, err
}

func clustersOfPostgres(ctx context.Context, c *config.Config) ([]string, error) {
	return postgres.Clusters(ctx, postgres.Config{URL: c.Sink.Postgres.Reveal(), PasswordFile: c.Sink.PasswordFile})
}

// mustHave returns an error if the log has nothing of the cluster: then every answer would be that there was nothing.
func mustHave(ctx context.Context, r sinks.Reader, settings *config.Config, cluster string) error {
	end, err := r.CutAt(ctx, time.Time{})
	if err != nil || len(end.Batches) > 0 {
		return err
	}
	found := errors.New("a change was found") // though its control records are not kept any more
	err = r.Changes(ctx, sinks.Query{NoBodies: true}, func(*sinks.Logged) error { return found })
	switch {
	case err == nil:
		return fmt.Errorf("the log (%s) %w %q: set KUBECDC_CLUSTER and the settings of the sink as "+
			"exporter run has them", SinkAddress(settings), sinks.ErrNoCluster, cluster)
	case errors.Is(err, found):
		return nil
	}
	return err
}

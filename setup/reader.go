package setup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kubecdc/config"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
)

// OpenLog opens the log of a cluster for reading, for a command.
func OpenLog(ctx context.Context, command string, settings *config.Config, cluster string) (sinks.ReadCloser, error) {
	if !SinkOf(settings).Readable() {
		return nil, &config.Error{Problems: []config.Problem{{Setting: "KUBECDC_SINK", Value: settings.Sink.Kind,
			What: "what it writes can't be read back",
			Fix:  "set it to the sink whose log exporter " + command + " shall read: sqlite, kafka or postgres"}}}
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

// Package run has the command exporter run: it joins the parts of an exporter, and shows what it does.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"kubecdc/checkpoint"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/config"
	"kubecdc/export"
	"kubecdc/export/live"
	"kubecdc/export/plan"
	"kubecdc/internal/dependency"
	"kubecdc/internal/screen"
	"kubecdc/internal/sqlitefile"
	"kubecdc/internal/wait"
	"kubecdc/observe"
	"kubecdc/setup"
	"kubecdc/status"
)

const runHelp = `Export the changes of a cluster until stopped.

Each selected resource is listed once, then watched. Every change is written to the
sink, with the object before and after. The checkpoint stores up to where the log is
complete, and the next start resumes there. exporter check tests the settings first.
With a kubeconfig alone the log is a file, which other commands can read meanwhile.

  exporter run
  exporter run --resources pods,deployments.apps
  exporter run --sink kafka --kafka-brokers kafka-1:9092
  exporter run --sink postgres --sink-postgres postgres://kubecdc@db.example.com/cdc

Ctrl-C or SIGTERM ends it, after the batch in flight is committed.`

const allSettings = `Each setting is a flag or an environment variable; the flag wins.
Defaults are in [brackets].
`

// New returns the command exporter run.
func New() *cobra.Command {
	all := false
	c := &cobra.Command{
		Use:   "run [flags]",
		Long:  runHelp,
		Short: "Export the changes of a cluster until stopped",
		Args:  cli.Args(0, 0),
		RunE:  func(c *cobra.Command, _ []string) error { return cli.UntilStopped(run(c.Context(), c, all)) },
	}
	c.Flags().BoolVar(&all, "all", false, "on a terminal also show Events, heartbeats of Nodes, and Leases if they are exported")
	return cli.WithSettingsHelp(allSettings+config.Usage(cli.Width), c, nil)
}

// run reads the settings, joins the parts and exports until ctx ends.
func run(ctx context.Context, c *cobra.Command, all bool) error {
	settings, cluster, warnings, err := config.Read(os.Environ(), c.Flags())
	if err != nil {
		return err
	}
	go returnMemory(ctx)
	d := newDisplay(settings)
	log := newLog(settings, d)
	for _, w := range warnings {
		log.Warn(w)
	}
	exporter := live.New(log, settings.Slots.Count)
	watch := &lifecycle{Exporter: exporter, Metrics: observe.NewMetrics(cli.Version, exporter), display: d, show: d.show(all)}
	defer d.begin(ctx, exporter)()
	watch.status = &observe.Status{Exporter: exporter, Version: cli.Version,
		StaleAfter: status.StaleAfter(settings.Source.Watermarks),
		SinkPage:   setup.SinkOf(settings).Page}
	watch.status.Open(observe.Place{Cluster: cluster.Cluster})
	if watch.audit, err = setup.AuditIntake(settings, watch.Metrics.AuditEvents); err != nil {
		return err
	}
	server, err := serve(settings, cluster, watch, log)
	if err != nil {
		return err
	}
	defer server.Close()
	readAudit(ctx, settings, watch.audit, log)
	start := dependency.NewStart(log, watch.waitsFor)
	cluster.REST.Wrap(watch.Metrics.CountRequests)
	return runWithin(ctx, func() (time.Duration, error) { return watch.mayEnd(settings.Process.ShutdownTimeout) }, func() error {
		return exportTo(ctx, settings, setup.NewCluster(cluster), start, watch, log)
	})
}

// runWithin returns the error of work. If ctx has ended and work does not end within a limit, it returns the limit's error. A
// pipe without a reader, or a server that does not answer, can block work for ever.
func runWithin(ctx context.Context, limit func() (time.Duration, error), work func() error) error {
	result := make(chan error, 1)
	go func() { result <- work() }()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	left, late := limit()
	select {
	case err := <-result:
		return err
	case <-time.After(left):
		return late
	}
}

// exportTo exports until ctx ends or an error is final. After the loss of the checkpoint it opens both ends again.
func exportTo(
	ctx context.Context, settings *config.Config, cluster *setup.Cluster, start *dependency.Steps, watch *lifecycle,
	log *slog.Logger,
) error {
	planned, err := setup.ExportConfig(settings)
	if err != nil {
		return err
	}
	if err := cluster.Identify(ctx, start); err != nil {
		return err
	}
	name := cluster.Cluster
	others, err := cluster.ChooseLog(ctx, settings)
	if err != nil {
		return err
	}
	for _, path := range setup.RemoveOldLogs(others, settings) {
		log.Info("removed the log of another cluster of this name: it is older than KUBECDC_SQLITE_HISTORY", "file", path)
	}
	watch.listOtherLogs(cluster.NamedOtherwise(name), others, log)
	planned.Cluster = cluster.Cluster
	cluster.Server.Namespaces = planned.Namespaces
	cluster.Server.Client().Compress(settings.Source.Compression)
	for {
		err := exportOnce(ctx, settings, planned, cluster, start, watch, log)
		if !errors.Is(err, checkpoint.ErrGone) || ctx.Err() != nil {
			return err
		}
		if err := putAside(settings, cluster, err, log); err != nil {
			return err
		}
		if wait.For(ctx, reopenAfter) != nil {
			return nil
		}
	}
}

// putAside renames a damaged checkpoint file, so that a new one is rebuilt from the log. It returns cause if there is no log to
// read back.
func putAside(settings *config.Config, cluster *setup.Cluster, cause error, log *slog.Logger) error {
	path, err := settings.SQLitePath(cluster.Cluster)
	if err != nil || !sqlitefile.IsDamaged(cause) {
		log.Error("the checkpoint was dropped or emptied while the exporter ran: opening it again",
			"in", reopenAfter.String(), "error", cause)
		return err
	}
	if !setup.SinkOf(settings).RebuildsCheckpoint {
		return cause
	}
	aside, err := sqlitefile.PutAside(path, "damaged")
	if err != nil {
		return errors.Join(cause, fmt.Errorf("put the damaged checkpoint aside: %w", err))
	}
	log.Error("the checkpoint's file is damaged: it is put aside, and the checkpoint is rebuilt from the log", "file", path,
		"put_aside_as", aside, "error", cause)
	return nil
}

// reopenAfter is the pause before a dropped checkpoint is opened again, since somebody may still work on the database.
const reopenAfter = time.Second

// exportOnce opens the checkpoint and the sink, and exports until it fails.
func exportOnce(ctx context.Context, settings *config.Config, planned plan.Config, cluster *setup.Cluster,
	start *dependency.Steps, watch *lifecycle, log *slog.Logger) error {
	store, where, err := setup.OpenStore(ctx, start, settings, cluster)
	if err != nil {
		return fmt.Errorf("open the checkpoint: %w", err)
	}
	defer store.Close()
	defer writeAddress(settings, cluster.Cluster, watch.url, log)()
	if err := cluster.Bind(ctx, start, store, where, log); err != nil {
		return err
	}
	if streams, err := store.Streams(ctx); err == nil {
		watch.StreamsFound(streams)
	}
	spools := setup.Spools(settings, cluster, log)
	sink, err := setup.OpenSink(ctx, start, settings, cluster,
		setup.SinkHelp{Log: log, Show: watch.show, Observer: watch, Pin: store.PinPartitions, Version: cli.Version, Store: store,
			Spooled: spools != nil && spools.Log(ctx) != ""})
	if err != nil {
		return fmt.Errorf("open the sink: %w", err)
	}
	defer sink.Close()
	closeAudit, err := openAudit(ctx, settings, planned, store, sink, watch.audit)
	if err != nil {
		return err
	}
	defer closeAudit()
	size := setup.LogSize{Settings: settings, Cluster: cluster.Cluster}
	defer watch.status.Open(observe.Place{Cluster: cluster.Cluster, Store: store, LogSize: size.Get,
		Addresses: map[string]string{dependency.Sink: setup.SinkAddress(settings), dependency.Checkpoint: where,
			dependency.APIServer: cluster.Server.Host()}})()
	log.Info("kubecdc exporter", "version", cli.Version, "cluster", cluster.Cluster, "identity", cluster.Binding.ID, "from",
		cluster.Origin,
		"sink", setup.DescribeSink(settings), "checkpoint", where)
	watch.title(cluster.Cluster, strings.TrimPrefix(where, "sqlite:"), watch.url)
	defer context.AfterFunc(ctx, func() {
		if !watch.HasHeld() {
			return
		}
		log.Info("stopping: the batch in flight is finished first; a second signal ends at once",
			"within", settings.Process.ShutdownTimeout.String())
	})()
	err = export.Run(ctx, planned, plan.Parts{Server: cluster.Server, Store: store, Sink: sink, Spools: spools,
		State:  watch.Exporter,
		Logger: log, Start: start, StoreAt: where, SinkAt: setup.SinkAddress(settings)})
	switch {
	case err != nil:
	case watch.HasProblem():
		log.Warn("stopped while a slot had a problem: the next start goes on from what is durable")
	case spools != nil && spools.Log(context.WithoutCancel(ctx)) != "":
		log.Warn("stopped; what the sink has not taken is in the spool", "folder", spools.Path)
	default:
		log.Info("stopped; all that was read is in the sink and checkpointed")
	}
	return err
}

// newLog returns the logger of the process. client-go also logs there.
func newLog(settings *config.Config, d *display) *slog.Logger {
	log := observe.NewLogger(os.Stderr, settings.Process.LogLevel, settings.Process.LogFormat, screen.IsTerminal(os.Stderr))
	if d != nil {
		log = slog.New(terminalLog{observe.NewLogger(d, settings.Process.LogLevel, "text", true).Handler()})
	}
	slog.SetDefault(log)
	stdlog.SetOutput(io.Discard) // SetDefault has redirected it; main.go says why nothing is printed
	klog.SetSlogLogger(log.With("from", "client-go"))
	return log
}

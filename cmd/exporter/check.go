package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/config"
	"kubecdc/internal/startup"
	"kubecdc/sinks"
	"kubecdc/source/discovery"
)

const checkHelp = `Check the settings, and that the API server, the checkpoint and the sink can be reached and used.

Nothing is exported. The checkpoint's file or tables are created if they do not
exist. With Kafka the check tries everything that a start and a restart need:
to see, read and write each topic, to create missing ones, and a transaction.
Unlike run it does not wait for a server that can't be reached: each check is
made once, and takes at most KUBECDC_START_TIMEOUT, or 20s if that is 0s.`

// checkTimeout bounds each of the checks, unless KUBECDC_START_TIMEOUT does.
const checkTimeout = 20 * time.Second

func newCheck() *cobra.Command {
	return withSettings(&cobra.Command{
		Use:   "check [flags]",
		Short: "Check the settings, and that the servers they name can be used",
		Long:  checkHelp,
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return check(c.Context(), c) },
	})
}

func check(ctx context.Context, c *cobra.Command) error {
	settings, cluster, warnings, err := config.Read(os.Environ(), c.Flags())
	if err != nil {
		return err
	}
	r := &report{ctx: ctx, settings: settings, cluster: newTarget(cluster)}
	r.line("settings", "ok", fmt.Sprintf("%d read and checked", len(config.Settings())))
	for _, w := range warnings {
		r.line("", "warning", w)
	}
	r.checkCluster()
	_ = r.step(startup.Step{For: "checkpoint", At: settings.Checkpoint.Location.String()}, r.checkCheckpoint)
	_ = r.step(startup.Step{For: "sink", At: sinkAddress(settings)}, r.checkSink)
	if ctx.Err() != nil {
		return errStopped
	}
	return r.print(c.OutOrStdout())
}

// report is the table that exporter check prints.
type report struct {
	ctx      context.Context
	settings *config.Config
	cluster  *target
	selected []change.Resource // the resources to export, as far as they are known
	lines    [][3]string
	failed   int
}

var errStopped = errors.New("stopped before all checks were made")

func (r *report) line(what, state, text string) {
	for i, part := range strings.Split(strings.TrimSpace(text), "\n") {
		if i > 0 {
			what, state = "", ""
		}
		r.lines = append(r.lines, [3]string{what, state, strings.TrimSpace(part)})
	}
}

// step runs one check and reports its text or its error. A check that exceeds its limit is abandoned.
func (r *report) step(step startup.Step, run func(context.Context) (string, error)) error {
	if step.Limit = r.settings.Process.StartTimeout; step.Limit == 0 {
		step.Limit = checkTimeout
	}
	var text string
	err := startup.Once(r.ctx, step, func(ctx context.Context) (err error) {
		text, err = run(ctx)
		return err
	})
	if err != nil {
		r.failed++
		r.line(step.For, "FAILED", config.Redact(err.Error()))
		return err
	}
	r.line(step.For, "ok", text)
	return nil
}

func (r *report) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, l := range r.lines {
		fmt.Fprintf(t, "%s\t%s\t%s\n", l[0], l[1], l[2])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.failed > 0 {
		return fmt.Errorf("%d of the checks failed", r.failed)
	}
	return nil
}

// checkCluster checks the API server. If it does not answer, the resources are not checked, and a late answer is ignored.
func (r *report) checkCluster() {
	cluster := r.cluster
	step := startup.Step{For: "API server", At: cluster.REST.Host, Progress: cluster.reach.progress}
	var silent *startup.SilentError
	err := r.step(step, func(ctx context.Context) (string, error) { return checkServer(ctx, cluster) })
	if errors.As(err, &silent) {
		r.cluster = newTarget(cluster.Connection)
		r.line("resources", "FAILED", "not checked: the API server does not answer")
		r.failed++
		return
	}
	step.For = "resources"
	_ = r.step(step, func(ctx context.Context) (string, error) { return r.checkResources(cluster.reach.trace(ctx)) })
}

func checkServer(ctx context.Context, cluster *target) (string, error) {
	if err := cluster.identify(ctx, nil); err != nil {
		return "", err
	}
	id := cluster.identity
	text := fmt.Sprintf("%s as %q (%s), %s", cluster.REST.Host, cluster.Cluster, cluster.Origin, id)
	if id.UID == "" {
		text += "\nthe cluster is known by its CA alone: grant get on namespace kube-system (" + id.Hidden + ")"
	}
	return text, nil
}

// errNameless: the cluster has no name, since there is no context to take one from and its uid is not known.
var errNameless = errors.New("not checked: the name of the cluster is not known; it comes from the cluster's uid " +
	"unless KUBECDC_CLUSTER is set")

func (r *report) checkCheckpoint(ctx context.Context) (string, error) {
	if r.cluster.Cluster == "" && r.settings.Checkpoint.Location == "" {
		return "", errNameless
	}
	store, where, err := openStore(ctx, nil, r.settings, r.cluster)
	if err != nil {
		return "", err
	}
	defer store.Close()
	if r.cluster.identity.ID() == "" {
		return where + "; not checked against the cluster", nil
	}
	if err := r.cluster.bind(ctx, nil, store, where, slog.New(slog.DiscardHandler)); err != nil {
		return "", err
	}
	streams, err := store.Streams(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, %d streams known", where, len(streams)), nil
}

func (r *report) checkSink(ctx context.Context) (string, error) {
	if r.cluster.Cluster == "" {
		return "", errNameless
	}
	sink, err := openSink(ctx, nil, r.settings, r.cluster, sinkHelp{log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return "", err
	}
	defer sink.Close()
	if err := sink.Ping(ctx); err != nil {
		return "", err
	}
	bound := r.bindLog(ctx, sink)
	var other *sinks.OtherClusterError
	var encoded *sinks.OtherEncodingError
	if errors.As(bound, &other) || errors.As(bound, &encoded) {
		return "", bound // write nothing to another cluster's log
	}
	found, err := sink.Check(ctx, r.selected)
	for _, w := range found.Warnings {
		r.line("", "warning", w)
	}
	if err != nil {
		return "", err
	}
	if bound != nil {
		return "", bound
	}
	return strings.Join(append([]string{describeSink(r.settings)}, found.Retention...), "\n"), nil
}

// bindLog checks that the sink holds the log of this checkpoint, if both can be reached. It does not bind a checkpoint
// without streams: a check decides nothing.
func (r *report) bindLog(ctx context.Context, sink sinks.Sink) error {
	store, _, err := openStore(ctx, nil, r.settings, r.cluster)
	if err != nil || r.cluster.binding.ID == "" {
		return nil // reported by checkCheckpoint
	}
	defer store.Close()
	if _, err := store.Bind(ctx, r.cluster.Cluster, r.cluster.identity); err != nil {
		return nil
	}
	if err := r.meet(ctx, store, sink); err != nil {
		return err
	}
	if streams, err := store.Streams(ctx); err != nil || len(streams) == 0 {
		return err
	}
	identity, err := sink.Identity(ctx)
	if err != nil {
		return err
	}
	return store.BindLog(ctx, identity)
}

// secretsAre returns how Secrets are exported.
func secretsAre(settings *config.Config, selected []change.Resource) string {
	if !slices.ContainsFunc(selected, discovery.IsSecrets) {
		return "not exported"
	}
	return "exported as " + settings.Records.Secrets
}

// meet checks that the log under the cluster's name belongs to this cluster. Without a checkpoint that may take a read of
// the whole log.
func (r *report) meet(ctx context.Context, store checkpoint.History, sink sinks.Sink) error {
	for slot := range r.settings.Slots.Count {
		from := sinks.Durable{New: true}
		last, err := store.History(ctx, slot, 1)
		if err != nil {
			return err
		}
		if len(last) > 0 {
			from = sinks.Durable{Seq: last[0].Seq, Offsets: last[0].Offsets}
		} else if slot > 0 {
			continue
		}
		if err := sink.VerifyCluster(ctx, slot, from); err != nil {
			return err
		}
	}
	return nil
}

// checkResources checks that the selected resources exist and may be listed and watched.
func (r *report) checkResources(ctx context.Context) (string, error) {
	plan, err := exportConfig(r.settings)
	if err != nil {
		return "", err
	}
	server, err := discovery.Connect(r.cluster.REST)
	if err != nil {
		return "", err
	}
	served, err := server.Served(ctx)
	if err != nil {
		return "", err
	}
	for _, doubt := range plan.Warnings(served) {
		r.line("", "warning", doubt)
	}
	selected, unknown := discovery.Select(plan.Resources, served)
	if len(unknown) > 0 {
		return "", discovery.Unknown(unknown, served)
	}
	selected = slices.DeleteFunc(selected, func(r change.Resource) bool { return len(plan.StreamsOf(r)) == 0 })
	r.selected = selected
	forbidden, err := r.forbidden(ctx, plan, selected)
	if err != nil {
		return "", err
	}
	if len(forbidden) > 0 {
		return "", errors.New("not allowed: " + strings.Join(forbidden, ", ") +
			"\ngrant list and watch on them (deploy/ has a ClusterRole to start from)")
	}
	missing, err := r.missingRemovalRights(ctx)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%d to export, all may be listed and watched; Secrets: %s", len(selected), secretsAre(r.settings, selected))
	if len(missing) > 0 {
		text += "\nnot allowed: " + strings.Join(missing, ", ") +
			": if a resource is removed, its objects would not be recorded as deleted"
	}
	return text, nil
}

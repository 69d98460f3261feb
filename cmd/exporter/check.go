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

Nothing is exported. The checkpoint's file or tables are made where they do not exist yet. Of Kafka all is tried
that a start and a restart need: to see, read and write each topic, to make what is missing, and a transaction.
What can't be reached is not waited for, as run does: each check is made once, and has 20s
at most, or KUBECDC_START_TIMEOUT.
The exit code is 0 when all is well, 1 when something is not, 2 when settings are wrong.`

// checkTimeout bounds each of the checks, unless KUBECDC_START_TIMEOUT does.
const checkTimeout = 20 * time.Second

func newCheck() *cobra.Command {
	return withSettings(&cobra.Command{
		Use:   "check [flags]",
		Short: "Check the settings, and that all they name can be reached",
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

// report is the table that check prints.
type report struct {
	ctx      context.Context
	settings *config.Config
	cluster  *target
	selected []change.Resource // to be exported, as far as that is known
	lines    [][3]string
	failed   int
}

var errStopped = errors.New("stopped before all was checked")

func (r *report) line(what, state, text string) {
	for i, part := range strings.Split(strings.TrimSpace(text), "\n") {
		if i > 0 {
			what, state = "", ""
		}
		r.lines = append(r.lines, [3]string{what, state, strings.TrimSpace(part)})
	}
}

// step runs one check: its text is shown when it passes, its error when it fails. One that hangs is left behind.
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

// checkCluster asks the API server. One that gives no answer is not asked for more, and what may yet come is not used.
func (r *report) checkCluster() {
	cluster := r.cluster
	step := startup.Step{For: "API server", At: cluster.REST.Host, Far: cluster.reach.far}
	var silent *startup.SilentError
	err := r.step(step, func(ctx context.Context) (string, error) { return checkServer(ctx, cluster) })
	if errors.As(err, &silent) {
		r.cluster = newTarget(cluster.Connection)
		r.line("resources", "FAILED", "not checked: the API server gives no answer")
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

// errNameless: there is no context to take a name from, and the API server did not say which cluster it is.
var errNameless = errors.New("not checked: it depends on the name of the cluster, which is taken from its uid unless KUBECDC_CLUSTER is set")

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
	if errors.As(bound, &other) {
		return "", bound // its log is left alone
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

// bindLog makes sure that the sink is the log that the checkpoint tells of, where both can be reached. One that has
// told of nothing yet is left unbound: a check decides nothing.
func (r *report) bindLog(ctx context.Context, sink sinks.Sink) error {
	store, _, err := openStore(ctx, nil, r.settings, r.cluster)
	if err != nil || r.cluster.binding.ID == "" {
		return nil // said already
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

// secretsAre says what becomes of Secrets.
func secretsAre(settings *config.Config, selected []change.Resource) string {
	if !slices.ContainsFunc(selected, discovery.IsSecrets) {
		return "not exported"
	}
	return "exported as " + settings.Records.Secrets
}

// meet makes sure that what the sink has under the cluster's name is of this cluster. Without a checkpoint the whole log may
// have to be read for that, once.
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

// checkResources makes sure that what is to be exported exists and may be listed and watched.
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
	for _, doubt := range plan.Doubts(served) {
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
		return "", errors.New("not allowed: " + strings.Join(forbidden, ", ") + "\ngrant list and watch on them (deploy/ has a ClusterRole to start from)")
	}
	blind, err := r.blind(ctx)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%d to export, all may be listed and watched; Secrets: %s", len(selected), secretsAre(r.settings, selected))
	if len(blind) > 0 {
		text += "\nnot allowed: " + strings.Join(blind, ", ") + ": the objects of a resource that is removed would not be recorded as deleted"
	}
	return text, nil
}

// Package check finds out whether an export with some settings would start and go on. It asks the servers that the settings name.
// It prints nothing, and changes nothing, except that it may create a checkpoint.
package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/config"
	"kubecdc/internal/dependency"
	"kubecdc/internal/fault"
	"kubecdc/internal/kubeapi"
	"kubecdc/internal/plain"
	"kubecdc/setup"
	"kubecdc/sinks"
	"kubecdc/source/discovery"
)

const checkTimeout = 20 * time.Second

// Run makes all checks that an export with these settings needs. The error is ErrStopped.
func Run(ctx context.Context, settings *config.Config, connection *config.Connection, warnings []string) ([]Finding, error) {
	r := &report{ctx: ctx, settings: settings, cluster: setup.NewCluster(connection)}
	r.line("settings", OK, fmt.Sprintf("%d read and checked", len(config.Settings())))
	for _, w := range warnings {
		r.warn("settings", w)
	}
	r.checkCluster()
	_ = r.step(dependency.Step{Awaited: "checkpoint", Address: settings.Checkpoint.Location.String()}, (*report).checkCheckpoint)
	_ = r.step(dependency.Step{Awaited: "sink", Address: setup.SinkAddress(settings)}, (*report).checkSink)
	r.checkDatabases()
	if ctx.Err() != nil {
		return nil, ErrStopped
	}
	return r.findings, nil
}

// report collects the findings of one run.
type report struct {
	ctx      context.Context
	settings *config.Config
	cluster  *setup.Cluster
	selected []change.Resource // the resources to export, as far as they are known
	findings []Finding
	grants   string // the command that prints the rights for this user, or "" until it is needed
}

const (
	OK      = "ok"
	Warning = "warning" // the export works, with less than it could
	Failed  = "FAILED"  // an export would stop, or not start
)

// Finding is the outcome of a check. Its message says how to fix a problem.
type Finding struct {
	Check   string `json:"check"`
	State   string `json:"state"`
	Message string `json:"message"`
}

// ErrStopped says that the context ended before all checks were made.
var ErrStopped = errors.New("stopped before all checks were made")

func (r *report) line(what, state, text string) {
	r.findings = append(r.findings, Finding{what, state, strings.TrimSpace(text)})
}

func (r *report) warn(what, text string) { r.line(what, Warning, text) }

// step runs one check, and reports its text or its error. A check that exceeds its limit is abandoned, and its result ignored.
func (r *report) step(step dependency.Step, run func(*report, context.Context) (string, error)) error {
	step.Limit = cmp.Or(step.Limit, checkTimeout)
	var text string
	part := *r
	part.findings = nil
	err := dependency.Once(r.ctx, step, func(ctx context.Context) (err error) {
		text, err = run(&part, ctx)
		return err
	})
	if !fault.Is[*dependency.SilentError](err) && r.ctx.Err() == nil {
		r.findings, r.selected = append(r.findings, part.findings...), part.selected
	}
	state := OK
	if err != nil {
		state, text = Failed, plain.Redact(err.Error())
	}
	if fault.Is[*fault.OlderTablesError](err) {
		state, text = Warning, text+". It is not checked further"
	}
	r.line(step.Awaited, state, text)
	return err
}

// checkCluster checks the API server. If it does not answer, the resources are not checked, and a late answer is ignored.
func (r *report) checkCluster() {
	cluster := r.cluster
	step := dependency.Step{Awaited: "API server", Address: cluster.REST.Host, Before: cluster.Before()}
	err := r.step(step, func(_ *report, ctx context.Context) (string, error) { return checkServer(ctx, cluster) })
	if fault.Is[*dependency.SilentError](err) {
		r.cluster = setup.NewCluster(cluster.Connection)
		r.line("resources", Failed, "not checked: the API server does not answer")
		return
	}
	if err == nil {
		r.checkServerInfo()
	}
	if id := cluster.Identity; err == nil && id.UID == "" {
		r.warn("API server", "the cluster is known by its CA alone: grant get on namespace kube-system ("+id.Hidden+")\n"+
			r.howToGrant(r.ctx))
	}
	step.Awaited = "resources"
	_ = r.step(step, (*report).checkResources)
}

func checkServer(ctx context.Context, cluster *setup.Cluster) (string, error) {
	if err := cluster.Identify(ctx, nil); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s as %q (%s), %s", cluster.REST.Host, cluster.Cluster, cluster.Origin, cluster.Identity), nil
}

// errNameless says that the cluster has no name: there is no context to take one from, and its uid is unknown.
var errNameless = errors.New("not checked: the name of the cluster is unknown; it comes from the cluster's uid " +
	"unless KUBECDC_CLUSTER is set")

func (r *report) checkCheckpoint(ctx context.Context) (string, error) {
	if r.cluster.Cluster == "" && r.settings.Checkpoint.Location == "" {
		return "", errNameless
	}
	if _, err := r.cluster.ChooseLog(ctx, r.settings); err != nil {
		return "", err
	}
	store, where, err := r.openStore(ctx)
	if err != nil {
		return "", err
	}
	defer store.Close()
	if r.cluster.Identity.ID() == "" {
		return where + "; not checked against the cluster", nil
	}
	if err := r.cluster.Bind(ctx, nil, store, where, slog.New(slog.DiscardHandler)); err != nil {
		return "", err
	}
	streams, err := store.Streams(ctx)
	if err != nil {
		return "", err
	}
	plan, err := setup.ExportConfig(r.settings)
	if err != nil {
		return "", err
	}
	if err := plan.RefuseOverlaps(r.selected, streams); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, %d streams known", where, len(streams)), nil
}

// openStore opens the checkpoint like exporter run, or shares the file of a running exporter.
func (r *report) openStore(ctx context.Context) (checkpoint.Store, string, error) {
	store, where, err := setup.OpenStore(ctx, nil, r.settings, r.cluster)
	if fault.Is[*checkpoint.InUseError](err) {
		return setup.ShareStore(ctx, r.settings, r.cluster)
	}
	return store, where, err
}

func (r *report) checkSink(ctx context.Context) (string, error) {
	if r.cluster.Cluster == "" {
		return "", errNameless
	}
	store, _, unopened := r.openStore(ctx) // an error is reported by checkCheckpoint
	if unopened == nil {
		defer store.Close()
	} else if setup.SinkOf(r.settings).InCheckpoint {
		return "", unopened
	}
	sink, err := setup.OpenSink(ctx, nil, r.settings, r.cluster, setup.SinkHelp{Log: slog.New(slog.DiscardHandler), Store: store})
	if err != nil {
		return "", err
	}
	defer sink.Close()
	if err := sink.Ping(ctx); err != nil {
		return "", err
	}
	bound := r.bindLog(ctx, store, sink)
	if fault.Is[*sinks.OtherClusterError](bound) || fault.Is[*sinks.OtherEncodingError](bound) {
		return "", bound // write nothing to another cluster's log
	}
	found, err := sink.Check(ctx, r.selected)
	for _, w := range found.Warnings {
		r.warn("sink", w)
	}
	if err != nil {
		return "", err
	}
	if bound != nil {
		return "", bound
	}
	for _, difference := range found.Retention {
		r.warn("sink", difference)
	}
	where := setup.DescribeSink(r.settings)
	if found.How != "" {
		where += ", " + found.How
	}
	return where, nil
}

// bindLog checks that the sink holds the log of this checkpoint, if both can be reached. It does not bind a checkpoint
// without streams: a check decides nothing.
func (r *report) bindLog(ctx context.Context, store checkpoint.Store, sink sinks.Sink) error {
	if store == nil || r.cluster.Binding.ID == "" {
		return nil // reported by checkCheckpoint
	}
	if _, err := store.Bind(ctx, r.cluster.Cluster, r.cluster.Identity); err != nil {
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

func secretsAre(settings *config.Config, selected []change.Resource) string {
	if !slices.ContainsFunc(selected, discovery.IsSecrets) {
		return "not exported"
	}
	return "exported as " + settings.Records.Secrets
}

// meet checks that the log with the cluster's name belongs to this cluster. Without a checkpoint it may read the log to its end.
func (r *report) meet(ctx context.Context, store checkpoint.History, sink sinks.Sink) error {
	for slot := range r.settings.Slots.Count {
		from := sinks.Durable{New: true}
		last, err := store.Select(ctx, slot, checkpoint.Window{Limit: 1})
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
	plan, err := setup.ExportConfig(r.settings)
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
		r.warn("resources", doubt)
	}
	selected, unknown := discovery.Select(plan.Resources, served)
	if len(unknown) > 0 {
		return "", discovery.Unknown(unknown, served)
	}
	selected = slices.DeleteFunc(selected, func(r change.Resource) bool { return len(plan.StreamsOf(r)) == 0 })
	r.selected = selected
	err = errors.Join(r.checkRights(ctx, plan, selected), r.checkReading(ctx, server, plan, selected))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d to export, all may be listed and watched; Secrets: %s", len(selected),
		secretsAre(r.settings, selected)), nil
}

// howToGrant names the command that prints the rights for this user. It asks the API server only once who the user is.
func (r *report) howToGrant(ctx context.Context) string {
	if r.grants == "" {
		r.grants = kubeapi.RBACCommand(kubeapi.UserOf(ctx, r.cluster.REST))
	}
	return r.grants + " prints the ClusterRole; kubectl apply -f - applies it"
}

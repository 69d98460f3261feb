// Package ask sends requests to running exporters, by signals in the checkpoint store, and waits for their answers. Package
// export handles the signals.
package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/config"
	"kubecdc/internal/dependency"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/internal/suggest"
	"kubecdc/internal/wait"
	"kubecdc/setup"
)

// Requester sends requests to the exporters of a cluster.
type Requester struct {
	Settings *config.Config
	Cluster  *setup.Cluster
	Store    checkpoint.Store // nil if it is not open
	// Out gets the answers. Report gets the progress of the requests, and warnings.
	Out, Report io.Writer
}

// New returns a requester without a checkpoint.
func New(settings *config.Config, connection *config.Connection, out, report io.Writer) *Requester {
	return &Requester{Settings: settings, Cluster: setup.NewCluster(connection), Out: out, Report: report}
}

// Open returns a requester with an open checkpoint. It makes one attempt to identify the cluster and to open its checkpoint.
func Open(ctx context.Context, settings *config.Config, connection *config.Connection,
	out, report io.Writer) (*Requester, error) {
	a := New(settings, connection, out, report)
	step := dependency.Step{Awaited: "the API server and the checkpoint", Limit: setup.OpenLimit, Before: a.Cluster.Before()}
	err := dependency.Once(ctx, step, func(ctx context.Context) error {
		if err := a.Cluster.Identify(ctx, nil); err != nil {
			return err
		}
		if _, err := a.Cluster.ChooseLog(ctx, settings); err != nil {
			return err
		}
		return a.OpenStore(ctx)
	})
	return a, err
}

// OpenStore opens the checkpoint of a cluster that has one, with its leases. Only exporter run makes a checkpoint for a new
// cluster.
func (a *Requester) OpenStore(ctx context.Context) error {
	var store checkpoint.Store
	var where string
	step := dependency.Step{Awaited: "the checkpoint", Address: a.Settings.Checkpoint.Location.String(), Limit: setup.OpenLimit}
	err := dependency.Once(ctx, step, func(ctx context.Context) (err error) {
		store, where, err = setup.ShareStore(ctx, a.Settings, a.Cluster)
		return err
	})
	if err != nil {
		return fmt.Errorf("open the checkpoint: %w", err)
	}
	if err = store.Find(ctx, a.Cluster.Cluster); err == nil {
		err = a.Cluster.Bind(ctx, nil, store, where, slog.New(slog.DiscardHandler))
	}
	if err != nil {
		store.Close()
		return err
	}
	a.Store = store
	return nil
}

func (a *Requester) Close() {
	if a.Store != nil {
		a.Store.Close()
	}
}

// firstCheckpoint is how long an exporter may take from being ready to its first checkpoint.
const firstCheckpoint = 5 * time.Second

// Streams returns the streams in the checkpoint. It waits a moment for the first ones.
func (a *Requester) Streams(ctx context.Context) (known []change.Position, err error) {
	for limit := time.Now().Add(firstCheckpoint); ; {
		known, err = a.Store.Streams(ctx)
		if err != nil || len(known) > 0 || time.Now().After(limit) {
			return known, err
		}
		if err := wait.For(ctx, askInterval); err != nil {
			return nil, err
		}
	}
}

// Named finds the streams of the checkpoint that names stand for: one stream (pods@shop), or all of a resource (pods). The group
// may be omitted if only one resource has the name.
func (a *Requester) Named(ctx context.Context, names []string) (found []change.Position, err error) {
	known, err := a.Streams(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		matching, err := streamsNamed(name, known)
		if err != nil {
			return nil, err
		}
		found = append(found, matching...)
	}
	return found, nil
}

func streamsNamed(name string, known []change.Position) (found []change.Position, err error) {
	var streams, resources []string
	for _, p := range known {
		streams, resources = append(streams, string(p.Stream)), append(resources, change.ResourceOf(p.Stream).ID())
	}
	resource, collection := name, ""
	if i := strings.IndexAny(name, "@?"); i >= 0 {
		resource, collection = name[:i], name[i:]
	}
	like := suggest.Like(resource, resources)
	if len(like) > 1 {
		return nil, suggest.Several(resource, like)
	}
	for i, p := range known {
		if len(like) == 1 && (streams[i] == like[0]+collection || collection == "" && resources[i] == like[0]) {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		near := suggest.DidYouMean(name, slices.Concat(resources, streams))
		return nil, fault.Usagef("the checkpoint has no stream %q\n%sit has: %s", name, near,
			cmp.Or(strings.Join(streams, ", "), "none yet"))
	}
	return found, nil
}

// Ask stores each request as a signal, sets its ID, and reports it. If untilDone is set, it then waits until every request has
// ended or is paused, and prints the answers. It returns an error if a request failed or was aborted. If ctx ends, Ask returns,
// and the exporters continue with the requests.
func (a *Requester) Ask(ctx context.Context, requests []checkpoint.Signal, untilDone bool) error {
	var ids []int64
	for i := range requests {
		id, err := a.Store.AddSignal(ctx, requests[i])
		if err != nil {
			return err
		}
		requests[i].ID = id
		ids = append(ids, id)
		plain.Fprintf(a.Report, "signal %d: %s %s\n", id, requests[i].Kind, requests[i].Stream)
	}
	if err := a.warnPaused(ctx, requests); err != nil {
		return err
	}
	a.warnUnheld(ctx, requests)
	if !untilDone {
		return nil
	}
	return a.await(ctx, ids)
}

// warnUnheld reports which signals have to wait for an exporter.
func (a *Requester) warnUnheld(ctx context.Context, requests []checkpoint.Signal) {
	slots, err := a.Store.Slots(ctx, a.Settings.Slots.Count)
	var replicas checkpoint.Replicas
	if err == nil {
		owner := setup.Owner()
		replicas, err = a.Store.Heartbeat(ctx, owner, 0)
		err = errors.Join(err, a.Store.Leave(ctx, owner))
	}
	if err != nil {
		plain.Fprintf(a.Report, "can't tell whether an exporter holds the streams' slots: %v\n", err)
		return
	}
	for _, r := range requests {
		if slot := change.SlotOf(r.Stream, slots); replicas.Slots[slot] == "" {
			plain.Fprintf(a.Report, "signal %d: no exporter holds slot %d now, which has stream %s: the next one that does "+
				"answers\n",
				r.ID, slot, r.Stream)
		}
	}
}

// warnPaused reports which snapshots have to wait until their stream is resumed.
func (a *Requester) warnPaused(ctx context.Context, requests []checkpoint.Signal) error {
	all, err := a.Store.Signals(ctx, true)
	if err != nil {
		return err
	}
	for _, r := range requests {
		if r.Kind == change.SignalSnapshot && slices.ContainsFunc(all, func(g checkpoint.Signal) bool {
			return g.Stream == r.Stream && g.State == change.SignalPaused
		}) {
			plain.Fprintf(a.Report, "signal %d: stream %s is paused: it is done after exporter resume %s\n", r.ID, r.Stream,
				r.Stream)
		}
	}
	return nil
}

// askInterval is how often a command polls for answers.
const askInterval = 500 * time.Millisecond

// await reports the progress of signals until all are answered. It returns an error if one was not done.
func (a *Requester) await(ctx context.Context, ids []int64) error {
	reported, failed := map[int64]string{}, error(nil)
	for len(ids) > 0 {
		all, err := a.Store.Signals(ctx, false)
		if err != nil && ctx.Err() == nil {
			return err
		}
		for _, g := range all {
			if !slices.Contains(ids, g.ID) {
				continue
			}
			if text := ProgressOf(g); text != reported[g.ID] {
				reported[g.ID] = text
				plain.Fprintf(a.Report, "signal %d: %s %s: %s\n", g.ID, g.Kind, g.Stream, text)
			}
			if g.State.Ended() || g.State == change.SignalPaused {
				ids = slices.DeleteFunc(ids, func(id int64) bool { return id == g.ID })
				failed = errors.Join(failed, a.answered(g))
			}
		}
		if err := wait.For(ctx, askInterval); err != nil {
			plain.Fprintf(a.Report, "not waiting any more; the exporter goes on with it: exporter signals list shows how far "+
				"it is\n")
			return err
		}
	}
	return failed
}

// answered prints the answer to a signal, and returns an error if it was not done.
func (a *Requester) answered(g checkpoint.Signal) error {
	if g.State == change.SignalFailed || g.State == change.SignalAborted {
		return fmt.Errorf("signal %d: %s %s: %s", g.ID, g.Kind, g.Stream, ProgressOf(g))
	}
	plain.Fprintf(a.Out, "%s: %s\n", g.Stream, cmp.Or(g.Reason, string(g.State)))
	return nil
}

// ProgressOf describes the progress of a signal in a few words.
func ProgressOf(g checkpoint.Signal) string {
	text := string(g.State)
	if g.Abort && !g.State.Ended() {
		text = "to be aborted"
	}
	if g.Done > 0 {
		text += fmt.Sprintf(", %d of about %d objects", g.Done, max(g.Total, g.Done))
	}
	if g.LastKey != "" && !g.State.Ended() {
		text += ", up to " + g.LastKey
	}
	if g.Reason != "" {
		text += ": " + g.Reason
	}
	return text
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/config"
	"kubecdc/export/ownership"
	"kubecdc/internal/plain"
	"kubecdc/internal/startup"
	"kubecdc/internal/suggest"
	"kubecdc/setup"
)

// requester is a command that asks running exporters for something, by signals in the checkpoint store.
type requester struct {
	settings    *config.Config
	cluster     *setup.Cluster
	store       checkpoint.Store
	shared      bool // the store can be shared with an exporter that runs
	out, report io.Writer
}

// openRequester opens the checkpoint of the cluster that the settings name.
func openRequester(ctx context.Context, c *cobra.Command) (*requester, error) {
	settings, connection, _, err := config.Read(os.Environ(), c.Flags())
	if err != nil {
		return nil, err
	}
	a := &requester{settings: settings, cluster: setup.NewCluster(connection), out: c.OutOrStdout(), report: c.ErrOrStderr()}
	step := startup.Step{For: "the API server and the checkpoint", Limit: setup.OpenLimit, Progress: a.cluster.Progress}
	err = startup.Once(ctx, step, func(ctx context.Context) error {
		if err := a.cluster.Identify(ctx, nil); err != nil {
			return err
		}
		return a.open(ctx)
	})
	var inUse *checkpoint.InUseError
	if errors.As(err, &inUse) {
		return nil, fmt.Errorf("the checkpoint file %s is in use by another process: an exporter that runs has it for itself, and can "+
			"be asked for nothing. Stop it, ask, and start it again: it does then what was asked. With a checkpoint in Postgres "+
			"(KUBECDC_CHECKPOINT) exporters are asked while they run", inUse.Path)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// open opens the checkpoint of a cluster that it knows, since only exporter run makes one of another cluster.
func (a *requester) open(ctx context.Context) error {
	path, err := a.settings.SQLitePath(a.cluster.Cluster)
	if err == nil && path != "" {
		_, err = os.Stat(path) // to open it would create it
	}
	if err != nil {
		return fmt.Errorf("open the checkpoint (KUBECDC_CHECKPOINT): %w", err)
	}
	store, where, err := setup.OpenStore(ctx, nil, a.settings, a.cluster)
	if err != nil {
		return fmt.Errorf("open the checkpoint: %w", err)
	}
	if err = store.Find(ctx, a.cluster.Cluster); err == nil {
		err = a.cluster.Bind(ctx, nil, store, where, slog.New(slog.DiscardHandler))
	}
	if err != nil {
		store.Close()
		return err
	}
	a.store, a.shared = store, path == ""
	return nil
}

func (a *requester) close() { a.store.Close() }

// firstCheckpoint is how long the first checkpoint of an exporter may take that has just become ready.
const firstCheckpoint = 5 * time.Second

// streams returns the streams that the checkpoint has. It waits a moment for the first ones.
func (a *requester) streams(ctx context.Context) (known []change.Position, err error) {
	for limit := time.Now().Add(firstCheckpoint); ; {
		known, err = a.store.Streams(ctx)
		if err != nil || len(known) > 0 || time.Now().After(limit) {
			return known, err
		}
		if err := untilNextLook(ctx); err != nil {
			return nil, err
		}
	}
}

// named finds the streams of the checkpoint that names stand for: one stream (pods@shop), or all of a resource (pods). The group may
// be left out if only one resource has the name.
func (a *requester) named(ctx context.Context, names []string) (found []change.Position, err error) {
	known, err := a.streams(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		of, err := streamsNamed(name, known)
		if err != nil {
			return nil, err
		}
		found = append(found, of...)
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
	var several *severalError
	if resource, err = resourceNamed(resource, resources, ""); errors.As(err, &several) {
		return nil, err
	}
	for i, p := range known {
		if err == nil && (streams[i] == resource+collection || collection == "" && resources[i] == resource) {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		near := suggest.DidYouMean(name, slices.Concat(resources, streams))
		return nil, &usageError{fmt.Sprintf("the checkpoint has no stream %q\n%sit has: %s", name, near, cmp.Or(strings.Join(streams, ", "), "none yet"))}
	}
	return found, nil
}

// ask stores a signal for each stream and, if wait is set, waits until all of them are answered.
func (a *requester) ask(ctx context.Context, requests []checkpoint.Signal, wait bool) error {
	var ids []int64
	for i := range requests {
		id, err := a.store.AddSignal(ctx, requests[i])
		if err != nil {
			return err
		}
		requests[i].ID = id
		ids = append(ids, id)
		plain.Fprintf(a.report, "signal %d: %s %s\n", id, requests[i].Kind, requests[i].Stream)
	}
	if !a.shared {
		plain.Fprintf(a.report, "no exporter holds the checkpoint file: the next one that starts does it\n")
		return nil
	}
	if err := a.warnPaused(ctx, requests); err != nil {
		return err
	}
	a.warnUnheld(ctx, requests)
	if !wait {
		return nil
	}
	return a.await(ctx, ids)
}

// warnUnheld says which signals have to wait for an exporter.
func (a *requester) warnUnheld(ctx context.Context, requests []checkpoint.Signal) {
	slots, err := a.store.Slots(ctx, a.settings.Slots.Count)
	var replicas checkpoint.Replicas
	if err == nil {
		owner := setup.Owner()
		replicas, err = a.store.Heartbeat(ctx, owner, 0)
		err = errors.Join(err, a.store.Leave(ctx, owner))
	}
	if err != nil {
		plain.Fprintf(a.report, "can't tell whether an exporter holds the streams' slots: %v\n", err)
		return
	}
	for _, r := range requests {
		if slot := ownership.SlotOf(r.Stream, slots); replicas.Slots[slot] == "" {
			plain.Fprintf(a.report, "signal %d: no exporter holds slot %d now, which has stream %s: the next one that does answers\n",
				r.ID, slot, r.Stream)
		}
	}
}

// warnPaused says which snapshots have to wait until their stream is resumed.
func (a *requester) warnPaused(ctx context.Context, requests []checkpoint.Signal) error {
	all, err := a.store.Signals(ctx, true)
	if err != nil {
		return err
	}
	for _, r := range requests {
		if r.Kind == change.SignalSnapshot && slices.ContainsFunc(all, func(g checkpoint.Signal) bool {
			return g.Stream == r.Stream && g.State == change.SignalPaused
		}) {
			plain.Fprintf(a.report, "signal %d: stream %s is paused: it is done after exporter resume %s\n", r.ID, r.Stream, r.Stream)
		}
	}
	return nil
}

// askInterval is how often a command looks for answers.
const askInterval = 500 * time.Millisecond

// untilNextLook waits for askInterval, or until the context ends.
func untilNextLook(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(askInterval):
		return nil
	}
}

// await reports the progress of signals until all are answered. It returns an error if one was not done.
func (a *requester) await(ctx context.Context, ids []int64) error {
	told, failed := map[int64]string{}, error(nil)
	for len(ids) > 0 {
		all, err := a.store.Signals(ctx, false)
		if err != nil && ctx.Err() == nil {
			return err
		}
		for _, g := range all {
			if !slices.Contains(ids, g.ID) {
				continue
			}
			if text := progressOf(g); text != told[g.ID] {
				told[g.ID] = text
				plain.Fprintf(a.report, "signal %d: %s %s: %s\n", g.ID, g.Kind, g.Stream, text)
			}
			if g.State.Ended() || g.State == change.SignalPaused {
				ids = slices.DeleteFunc(ids, func(id int64) bool { return id == g.ID })
				failed = errors.Join(failed, a.answered(g))
			}
		}
		if err := untilNextLook(ctx); err != nil {
			plain.Fprintf(a.report, "not waiting any more; the exporter goes on with it: exporter signals list shows how far it is\n")
			return err
		}
	}
	return failed
}

// answered prints the answer to a signal, and returns an error if it was not done.
func (a *requester) answered(g checkpoint.Signal) error {
	if g.State == change.SignalFailed || g.State == change.SignalAborted {
		return fmt.Errorf("signal %d: %s %s: %s", g.ID, g.Kind, g.Stream, progressOf(g))
	}
	plain.Fprintf(a.out, "%s: %s\n", g.Stream, cmp.Or(g.Reason, string(g.State)))
	return nil
}

// progressOf says in a few words how far a signal is.
func progressOf(g checkpoint.Signal) string {
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

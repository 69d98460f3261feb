package discovery

import (
	"context"
	"log/slog"
	"time"

	"kubecdc/change"
	"kubecdc/source/apiclient"
)

// triggers are the collections whose changes mean that the server may serve other resources now.
var triggers = []change.Resource{
	{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions"},
	{Group: "apiregistration.k8s.io", Version: "v1", Plural: "apiservices"},
}

// Follow calls changed with the selection now and then whenever it may have changed, until the context ends. It
// watches CRDs and API services, and polls in any case (that alone, where watching them is forbidden). Discovery
// documents lag behind the CRD, so after a trigger it asks a few times.
func (d *Server) Follow(ctx context.Context, patterns []Pattern, poll time.Duration, log *slog.Logger, changed func(Selection)) {
	kick := make(chan struct{}, 1)
	for _, r := range triggers {
		go followTrigger(ctx, d.client, r, kick, poll, log)
	}
	settle := []time.Duration{0, 300 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second}
	again := settle
	removals := newRemovals(d)
	for {
		delay := poll
		if len(again) > 0 {
			delay, again = again[0], again[1:]
		}
		select {
		case <-ctx.Done():
			return
		case <-kick:
			again = settle
			continue
		case <-time.After(delay):
		}
		served, err := d.Served(ctx)
		if err != nil {
			log.Warn("discovery failed; the resources stay as they are", "error", err)
			continue
		}
		selected, _ := Select(patterns, served)
		selected, doubts := removals.keep(ctx, selected)
		if passing(doubts) && len(again) == 0 {
			again = settle[len(settle)-1:]
		}
		changed(Selection{Resources: selected, Unsure: served.failed, discovery: d, patterns: patterns, served: served, doubts: doubts})
	}
}

// followTrigger kicks at every event of one collection.
func followTrigger(ctx context.Context, client *apiclient.Client, r change.Resource, kick chan<- struct{}, poll time.Duration, log *slog.Logger) {
	stream := change.NewStream(r, "", "", "")
	for ctx.Err() == nil {
		if err := watchTrigger(ctx, client, stream, kick); err != nil && apiclient.IsRefused(err) {
			log.Debug("discovery polls: watching is refused", "resource", r.ID(), "every", poll, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(poll, 5*time.Second)):
		}
	}
}

func watchTrigger(ctx context.Context, client *apiclient.Client, stream *change.Stream, kick chan<- struct{}) error {
	p, err := client.List(ctx, stream, apiclient.ListOptions{MetadataOnly: true, Limit: 1}, func(*apiclient.Page, []byte) error { return nil })
	if err != nil {
		return err
	}
	w, err := client.Watch(ctx, stream, true, p.Version, 600)
	if err != nil {
		return err
	}
	defer w.Close()
	for e := (apiclient.Event{}); ; { // at first too: what changed before the watch was open was not seen
		if e.Type != "BOOKMARK" {
			select {
			case kick <- struct{}{}:
			default:
			}
		}
		if e, err = w.Next(); err != nil {
			return err
		}
	}
}

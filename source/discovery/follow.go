package discovery

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"kubecdc/change"
	"kubecdc/internal/wait"
	"kubecdc/source/apiclient"
)

// triggers are the collections that change when the server begins or ends to serve a resource.
var (
	crds        = change.Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions"}
	apiServices = change.Resource{Group: "apiregistration.k8s.io", Version: "v1", Plural: "apiservices"}
	triggers    = []change.Resource{crds, apiServices}
)

// Follow calls changed with the selection at once, and then whenever it may have changed, until ctx ends. It watches CRDs and
// API services, and polls as well, since watching them may be forbidden. Discovery documents lag behind a CRD, so after a
// trigger they are read a few times.
func (d *Server) Follow(ctx context.Context, patterns []Pattern, poll time.Duration, log *slog.Logger, changed func(Selection)) {
	trigger := make(chan struct{}, 1)
	for _, r := range triggers {
		go followTrigger(ctx, d.client, r, trigger, poll, log)
	}
	afterTrigger := []time.Duration{0, 300 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second}
	delays := afterTrigger
	removals := removals{discovery: d, selected: map[string]change.Resource{}}
	named := map[string]change.APIResource{} // has the names of resources that are not served any more, too
	for {
		delay := poll
		if len(delays) > 0 {
			delay, delays = delays[0], delays[1:]
		}
		select {
		case <-ctx.Done():
			return
		case <-trigger:
			delays = afterTrigger
			continue
		case <-time.After(delay):
		}
		served, err := d.Served(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			log.Warn("discovery failed; the selection is unchanged", "error", err)
			continue
		}
		maps.Copy(named, served.named)
		served.named = maps.Clone(named)
		selected, _ := Select(patterns, served)
		d.remember(ctx, selected, log)
		selected, doubts := removals.keep(ctx, selected)
		if passing(doubts) && len(delays) == 0 {
			delays = afterTrigger[len(afterTrigger)-1:]
		}
		changed(Selection{Resources: selected, Unsure: served.failed, discovery: d, patterns: patterns, served: served,
			doubts: doubts})
	}
}

func followTrigger(ctx context.Context, client *apiclient.Client, r change.Resource, trigger chan<- struct{}, poll time.Duration,
	log *slog.Logger) {
	stream := change.NewStream(r, "", "", "")
	for ctx.Err() == nil {
		if err := watchTrigger(ctx, client, stream, trigger); err != nil && apiclient.IsRefused(err) {
			log.Debug("discovery only polls: watching is refused", "resource", r.ID(), "every", poll, "error", err)
		}
		_ = wait.For(ctx, min(poll, 5*time.Second))
	}
}

// triggerSeconds is the timeout of a trigger's watch. The documents are read a few times after each.
const triggerSeconds = 3600

func watchTrigger(ctx context.Context, client *apiclient.Client, stream *change.Stream, trigger chan<- struct{}) error {
	f := &followed{client: client, all: stream}
	defer client.SetFollowed(stream.Resource.Plural, nil)
	w, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	for e := (apiclient.Event{}); ; { // once at the start too: the collection may have changed before the watch was open
		if f.apply(&e); e.Type != "BOOKMARK" {
			select {
			case trigger <- struct{}{}:
			default:
			}
		}
		if e, err = w.Next(); err == nil {
			err = e.Err
		}
		if err != nil {
			return err
		}
	}
}

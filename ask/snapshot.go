package ask

import (
	"context"
	"encoding/json"
	"slices"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export"
	"kubecdc/internal/suggest"
	"kubecdc/internal/usage"
)

// Snapshots returns a signal for each stream of the resources.
func (a *Requester) Snapshots(ctx context.Context, resources []string, p export.SnapshotParams) (requests []checkpoint.Signal, err error) {
	if kind := a.Settings.Sink.Kind; p.All && kind != "kafka" {
		return nil, usage.Error("--all needs a log with a topic for it: KUBECDC_SINK is " + kind + ", not kafka")
	}
	params, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	known, err := a.Streams(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, k := range known {
		names = append(names, change.ResourceOf(k.Stream).ID())
	}
	slices.Sort(names)
	if resources, err = suggest.Resources(resources, slices.Compact(names), "the checkpoint has no stream of"); err != nil {
		return nil, err
	}
	for _, resource := range resources {
		found := false
		for _, k := range known {
			s := change.ParseStream(k.Stream)
			if s.Resource.ID() != resource || k.Ended != "" || s.Namespace != "" && p.Namespace != "" && s.Namespace != p.Namespace {
				continue
			}
			found = true
			requests = append(requests, checkpoint.Signal{Kind: change.SignalSnapshot, Stream: k.Stream, Params: params})
		}
		if !found {
			return nil, usage.Errorf("no stream of %q is exported, or none in this namespace", resource)
		}
	}
	return requests, nil
}

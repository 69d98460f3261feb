package query

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"kubecdc/query/timeline"
	"kubecdc/sinks"
)

// TailStart returns the cut after which a tail begins. missing says for each resource which later changes the log lacks, since
// they were pruned or lost. A zero from is the log's end. TailStart fails if from is neither a time nor a checkpoint, or if the
// log does not go back that far.
func TailStart(ctx context.Context, r sinks.Reader, resources []string, from timeline.Target) (after *sinks.Cut, missing []string,
	err error) {
	asked := from
	if from, err = timeline.Resolve(ctx, r, from, time.Time{}); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", asked, err)
	}
	if from != (timeline.Target{}) && from.Logged.IsZero() {
		return nil, nil, fmt.Errorf("a tail can't begin at %s: name a time or a checkpoint", from)
	}
	cut, err := r.CutAt(ctx, from.Logged)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", from, err)
	}
	if from == (timeline.Target{}) {
		return &cut, nil, nil
	}
	retained, err := r.Retained(ctx, resources)
	for _, id := range slices.Sorted(maps.Keys(retained)) {
		if since := retained[id].Since; since.After(from.Logged) {
			missing = append(missing, fmt.Sprintf("%s: the log has every change since %s", id, since.UTC().Format(time.RFC3339)))
		}
		if lost := retained[id].Lost; lost != "" {
			missing = append(missing, id+": "+lost)
		}
	}
	return &cut, missing, err
}

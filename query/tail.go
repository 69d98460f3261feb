package query

import (
	"context"
	"fmt"
	"time"

	"kubecdc/sinks"
)

// Start finds the cut after which a tail begins, and what it may lack: changes of the resources that are not kept any more.
func Start(ctx context.Context, r sinks.Reader, resources []string, from Target) (after *sinks.Cut, missing []string, err error) {
	asked := from
	if from, err = resolve(ctx, r, from); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", asked, err)
	}
	var cut sinks.Cut
	if from == (Target{}) {
		cut, err = r.End(ctx)
		return &cut, nil, err
	}
	if from.Logged.IsZero() {
		return nil, nil, fmt.Errorf("a tail can't begin at %s: name a time or a checkpoint", from)
	}
	if cut, err = r.At(ctx, from.Logged); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", from, err)
	}
	if len(resources) == 0 {
		if resources, err = r.Resources(ctx); err != nil {
			return nil, nil, err
		}
	}
	for _, id := range resources {
		since, err := r.KeptSince(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		if since.After(from.Logged) {
			missing = append(missing, fmt.Sprintf("%s: the log has every change since %s", id, since.UTC().Format(time.RFC3339)))
		}
		lost, err := r.Lost(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		if lost != "" {
			missing = append(missing, id+": "+lost)
		}
	}
	return &cut, missing, nil
}

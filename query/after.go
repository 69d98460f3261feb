package query

import (
	"context"

	"kubecdc/change"
	"kubecdc/sinks"
)

// CutBefore finds a cut after which the log has every change of a resource that is newer than a version. The log may have older
// changes after it, too. It returns nil if all changes must be read.
func CutBefore(ctx context.Context, r sinks.Reader, resource string, version change.ResourceVersion) (*sinks.Cut, error) {
	only := []string{resource}
	retained, err := r.Retained(ctx, only)
	if err != nil {
		return nil, err
	}
	s, err := readTimelines(ctx, r, only, retained, Target{Version: version}, nil)
	if err != nil {
		return nil, err
	}
	position := (&stateReader{timelines: s}).safePosition()
	if position.Version == "" {
		return nil, nil
	}
	cut, err := r.CutAt(ctx, s.timeBefore(position))
	if err != nil {
		return nil, unlessScan(err)
	}
	return &cut, nil
}

package query

import (
	"context"

	"kubecdc/change"
	"kubecdc/sinks"
)

// CutBefore finds a cut after which the log has every change of a resource that is newer than a version. Others may be there, too. Nil: all
// changes must be read.
func CutBefore(ctx context.Context, r sinks.Reader, resource string, version change.ResourceVersion) (*sinks.Cut, error) {
	only := []string{resource}
	retained, err := r.Retained(ctx, only)
	if err != nil {
		return nil, err
	}
	s, err := readStories(ctx, r, only, retained, Target{Version: version}, nil)
	if err != nil {
		return nil, err
	}
	base := (&stateReader{stories: s}).base()
	if base.Version == "" {
		return nil, nil
	}
	cut, err := r.At(ctx, s.timeBefore(base))
	if err != nil {
		return nil, unlessScan(err)
	}
	return &cut, nil
}

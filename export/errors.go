package export

import (
	"errors"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/sinks"
)

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// isFenced reports whether another process has taken over the slot. Only the checkpoint knows that, by its epoch.
func isFenced(err error) bool { return errors.Is(err, checkpoint.ErrFenced) }

// isFinal reports that this process must not write to the log, or that the checkpoint must be opened again.
func isFinal(err error) bool {
	return is[*sinks.OtherClusterError](err) || is[*sinks.OtherEncodingError](err) || is[*sinks.MovedError](err) || is[*OverlapError](err) ||
		is[*change.NewerVersionError](err) || errors.Is(err, ErrCompetingCheckpoint) || errors.Is(err, checkpoint.ErrGone)
}

// isUnavailable reports that another replica holds the slot, or that the layout has changed. The balancer handles both.
func isUnavailable(err error) bool {
	return is[*checkpoint.HeldError](err) || is[*checkpoint.LayoutError](err)
}

package export

import (
	"errors"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/fault"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
)

// isFenced reports whether another process has taken over the slot. Only the checkpoint knows that, by its epoch.
func isFenced(err error) bool { return errors.Is(err, checkpoint.ErrFenced) }

// isFinal reports that this process must not write to the log, or that the checkpoint must be opened again.
func isFinal(err error) bool {
	return fault.Is[*sinks.OtherClusterError](err) || fault.Is[*sinks.OtherEncodingError](err) || fault.Is[*sinks.MovedError](err) || fault.Is[*checkpoint.OtherLogError](err) || fault.Is[*OverlapError](err) ||
		fault.Is[*change.NewerVersionError](err) || errors.Is(err, ErrCompetingCheckpoint) || errors.Is(err, checkpoint.ErrGone) ||
		errors.Is(err, sqlitefile.ErrMoved)
}

// isUnavailable reports that another replica holds the slot, or that the layout has changed. The balancer handles both.
func isUnavailable(err error) bool {
	return fault.Is[*checkpoint.HeldError](err) || fault.Is[*checkpoint.LayoutError](err)
}

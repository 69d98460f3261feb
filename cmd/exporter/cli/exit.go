package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"kubecdc/checkpoint"
	"kubecdc/config"
	"kubecdc/export/plan"
	"kubecdc/export/session"
	"kubecdc/internal/fault"
	"kubecdc/sinks"
	"kubecdc/source/discovery"
)

// These are the exit codes, which --help explains.
const (
	ExitOK       = 0
	ExitFailed   = 1
	ExitSettings = 2
	ExitTrouble  = 2 // a command that compares has failed
	ExitFenced   = 3
	ExitKilled   = 130
)

// ExitCode returns the exit code of most commands for an error.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, session.ErrShutdownTimeout):
		return ExitFailed
	case config.IsError(err), fault.Is[fault.Usage](err), fault.Is[*discovery.UnknownError](err),
		fault.Is[*plan.OverlapError](err), isForeign(err):
		return ExitSettings
	case errors.Is(err, checkpoint.ErrFenced), errors.Is(err, session.ErrCompetingCheckpoint):
		return ExitFenced
	case errors.Is(err, context.Canceled): // a signal ended it before it was done
		return ExitKilled
	}
	return ExitFailed
}

// Compares marks the commands whose exit code 1 means only that something differs.
var Compares = map[string]string{"compares": ""}

// ExitCodeOf returns the exit code of a command for its error.
func ExitCodeOf(c *cobra.Command, err error) int {
	code := ExitCode(err)
	if _, marked := c.Annotations["compares"]; marked && code == ExitFailed && !fault.Is[*DiffersError](err) {
		return ExitTrouble
	}
	return code
}

// isForeign reports whether an address leads to another cluster or log than the checkpoint's.
func isForeign(err error) bool {
	return fault.Is[*checkpoint.OtherClusterError](err) || fault.Is[*checkpoint.OtherLogError](err) ||
		fault.Is[*sinks.OtherClusterError](err) ||
		fault.Is[*discovery.OtherClusterError](err) || fault.Is[*sinks.MovedError](err) ||
		fault.Is[*sinks.OtherEncodingError](err)
}

// UntilStopped returns the error of a command that goes on until a signal ends it, or nil if a signal did.
func UntilStopped(err error) error {
	if ExitCode(err) == ExitKilled {
		return nil
	}
	return err
}

// DiffersError says that the compared things differ. It means exit code 1, as with diff and kubectl diff.
type DiffersError struct{ text string }

func (e *DiffersError) Error() string { return e.text }

// Differs returns a DiffersError.
func Differs(text string) error { return &DiffersError{text} }

// ObjectsDiffer returns the DiffersError for n objects, or nil if n is 0.
func ObjectsDiffer(n int) error {
	if n == 1 {
		return &DiffersError{"1 object differs"}
	}
	return &DiffersError{fmt.Sprintf("%d objects differ", n)}
}

package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"kubecdc/checkpoint"
	"kubecdc/config"
	"kubecdc/export"
	"kubecdc/internal/fault"
	"kubecdc/internal/usage"
	"kubecdc/sinks"
	"kubecdc/source/discovery"
)

// The exit codes; --help explains them.
const (
	exitOK       = 0
	exitFailed   = 1
	exitSettings = 2
	exitTrouble  = 2 // of commands that compare: failed
	exitFenced   = 3
	exitKilled   = 130
)

func exitCode(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, export.ErrShutdownTimeout):
		return exitFailed
	case config.IsError(err), fault.Is[usage.Error](err), fault.Is[*discovery.UnknownError](err), fault.Is[*export.OverlapError](err), isForeign(err):
		return exitSettings
	case errors.Is(err, checkpoint.ErrFenced), errors.Is(err, export.ErrCompetingCheckpoint):
		return exitFenced
	case errors.Is(err, context.Canceled): // by a signal, before it was done
		return exitKilled
	}
	return exitFailed
}

// compares marks the commands whose exit code 1 says that something differs, and nothing else.
var compares = map[string]string{"compares": ""}

func exitCodeOf(c *cobra.Command, err error) int {
	code := exitCode(err)
	if _, marked := c.Annotations["compares"]; marked && code == exitFailed && !fault.Is[*differsError](err) {
		return exitTrouble
	}
	return code
}

// isForeign reports that an address leads to another cluster or another log than those that the checkpoint belongs to.
func isForeign(err error) bool {
	return fault.Is[*checkpoint.OtherClusterError](err) || fault.Is[*checkpoint.OtherLogError](err) || fault.Is[*sinks.OtherClusterError](err) ||
		fault.Is[*discovery.OtherClusterError](err) || fault.Is[*sinks.MovedError](err) || fault.Is[*sinks.OtherEncodingError](err)
}

// untilStopped is for what goes on until a signal ends it: that is no failure then.
func untilStopped(err error) error {
	if exitCode(err) == exitKilled {
		return nil
	}
	return err
}

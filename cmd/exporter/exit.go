package main

import (
	"context"
	"errors"

	"kubecdc/checkpoint"
	"kubecdc/config"
	"kubecdc/export"
	"kubecdc/sinks"
	"kubecdc/source/discovery"
)

// The exit codes; --help explains them.
const (
	exitOK       = 0
	exitFailed   = 1
	exitSettings = 2
	exitFenced   = 3
	exitKilled   = 130
)

func exitCode(err error) int {
	var usage *usageError
	var unknown *discovery.UnknownError
	var other *checkpoint.OtherClusterError
	var log *checkpoint.OtherLogError
	var foreign *sinks.OtherClusterError
	var encoded *sinks.OtherEncodingError
	var overlap *export.OverlapError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, export.ErrShutdownTimeout):
		return exitFailed
	case config.IsError(err), errors.As(err, &usage), errors.As(err, &unknown),
		errors.As(err, &other), errors.As(err, &log), errors.As(err, &foreign), errors.As(err, &encoded), errors.As(err, &overlap):
		return exitSettings
	case errors.Is(err, checkpoint.ErrFenced), errors.Is(err, export.ErrCompetingCheckpoint):
		return exitFenced
	case errors.Is(err, context.Canceled): // by a signal, before it was done
		return exitKilled
	}
	return exitFailed
}

// untilStopped is for what goes on until a signal ends it: that is no failure then.
func untilStopped(err error) error {
	if exitCode(err) == exitKilled {
		return nil
	}
	return err
}

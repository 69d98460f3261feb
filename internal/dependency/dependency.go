// Package dependency names the servers that the exporter depends on, and attributes errors to them. It waits for the servers at a
// start, and detects calls that they do not answer. It knows neither slots nor batches, nor what the calls do.
package dependency

import (
	"errors"
	"fmt"
)

// These are the names of the dependencies in the log, /readyz and the metrics.
const (
	Sink       = "sink"
	Checkpoint = "checkpoint"
	APIServer  = "apiserver"
)

// All lists the names.
var All = []string{APIServer, Sink, Checkpoint}

// taggedError attributes an error to a dependency. Its text is unchanged.
type taggedError struct {
	dependency string
	error
}

func (e *taggedError) Unwrap() error { return e.error }

// Tag attributes an error to a dependency, unless it is attributed to one already. It returns nil for nil.
func Tag(dependency string, err error) error {
	if err == nil || NameOf(err) != "" {
		return err
	}
	return &taggedError{dependency, err}
}

// TagCheckpoint attributes an error to the checkpoint, and prefixes its text with that. It returns nil for nil.
func TagCheckpoint(err error) error {
	if err == nil {
		return nil
	}
	return Tag(Checkpoint, fmt.Errorf("checkpoint: %w", err))
}

// NameOf returns the dependency that an error is attributed to, or "".
func NameOf(err error) string {
	if e, ok := errors.AsType[*taggedError](err); ok {
		return e.dependency
	}
	return ""
}

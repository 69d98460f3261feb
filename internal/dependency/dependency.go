// Package dependency names the servers that the exporter depends on, and attributes errors to them. It waits for them at a start, and
// detects calls that they do not answer. It does not know what the calls are about: neither slots nor batches.
package dependency

import (
	"errors"
	"fmt"
)

// The names of the dependencies in the log, /readyz and the metrics.
const (
	Sink       = "sink"
	Checkpoint = "checkpoint"
	APIServer  = "apiserver"
)

var All = []string{APIServer, Sink, Checkpoint}

// taggedError attributes an error to a dependency, and leaves its text as it is.
type taggedError struct {
	dependency string
	error
}

func (e *taggedError) Unwrap() error { return e.error }

// Tag attributes an error to a dependency, unless it is attributed to one already. It returns nil for nil.
func Tag(dependency string, err error) error {
	if err == nil || Of(err) != "" {
		return err
	}
	return &taggedError{dependency, err}
}

// OfCheckpoint attributes an error to the checkpoint, and says so in its text. It returns nil for nil.
func OfCheckpoint(err error) error {
	if err == nil {
		return nil
	}
	return Tag(Checkpoint, fmt.Errorf("checkpoint: %w", err))
}

// Of returns the dependency that an error is attributed to, or "".
func Of(err error) string {
	if e, ok := errors.AsType[*taggedError](err); ok {
		return e.dependency
	}
	return ""
}

// Package dependency names the servers that the exporter depends on, attributes errors to them, and detects calls that they
// do not answer. It does not know what the calls are about: neither slots nor batches.
package dependency

import "errors"

// The names of the dependencies in the log, /readyz and the metrics.
const (
	Sink       = "sink"
	Checkpoint = "checkpoint"
	Leases     = "leases" // if they are not kept in the checkpoint
	APIServer  = "apiserver"
)

// All are all of them.
var All = []string{APIServer, Sink, Checkpoint, Leases}

// taggedError attributes an error to a dependency, and leaves its text as it is.
type taggedError struct {
	dependency string
	error
}

func (e *taggedError) Unwrap() error { return e.error }

// Tag attributes an error to a dependency; nil stays nil.
func Tag(dependency string, err error) error {
	if err == nil {
		return nil
	}
	return &taggedError{dependency, err}
}

// Of returns the dependency that an error is attributed to, or "".
func Of(err error) string {
	var e *taggedError
	if errors.As(err, &e) {
		return e.dependency
	}
	return ""
}

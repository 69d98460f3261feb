// Package dependency names the servers that an exporter depends on, says which of them an error comes from, and notices
// calls to them that stay without an answer. It knows nothing of what is asked: neither slots nor batches.
package dependency

import "errors"

// The names by which the log, /readyz and the metrics know them.
const (
	Sink       = "sink"
	Checkpoint = "checkpoint"
	Leases     = "leases" // where they are not in the checkpoint
)

// taggedError says which dependency an error comes from. It adds nothing to the text.
type taggedError struct {
	dependency string
	error
}

func (e *taggedError) Unwrap() error { return e.error }

// Tag notes that the error comes from the dependency; nil stays nil.
func Tag(dependency string, err error) error {
	if err == nil {
		return nil
	}
	return &taggedError{dependency, err}
}

// Of gives the dependency that an error comes from, or "".
func Of(err error) string {
	var e *taggedError
	if errors.As(err, &e) {
		return e.dependency
	}
	return ""
}

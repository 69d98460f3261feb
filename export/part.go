package export

import "errors"

// The parts that a slot can be stuck on.
const (
	PartSink       = "sink"
	PartCheckpoint = "checkpoint"
	PartLeases     = "leases" // where they are not in the checkpoint
)

// partError says which part an error comes from. It adds nothing to the text.
type partError struct {
	part string
	error
}

func (e *partError) Unwrap() error { return e.error }

// in notes that the error comes from the part; nil stays nil.
func in(part string, err error) error {
	if err == nil {
		return nil
	}
	return &partError{part, err}
}

// PartOf gives the part that an error comes from, or "".
func PartOf(err error) string {
	var p *partError
	if errors.As(err, &p) {
		return p.part
	}
	return ""
}

package checkpoint

import (
	"context"

	"kubecdc/change"
)

// Redactions is how the inventory follows a change of what may be kept of objects.
type Redactions interface {
	// Redacted gives, for each stream known, the rules that Redact noted last; empty where it noted none.
	Redacted(ctx context.Context) (map[change.StreamID]string, error)
	// Redact makes the bodies of the streams what they may be now, and then notes the rules. ErrFenced as for Commit; after
	// an error some bodies may have been rewritten, and the rules are noted of no stream or of some.
	Redact(ctx context.Context, slot int, epoch int64, streams []Redaction) error
}

// Redaction is what is to become of a stream's bodies.
type Redaction struct {
	Stream change.StreamID
	Rules  string
	// Rewrite gives what a body is to be; nil: it is forgotten. May be nil itself: the bodies stay as they are.
	Rewrite func(key string, body []byte) []byte
}

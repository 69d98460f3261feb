package checkpoint

import (
	"bytes"
	"context"

	"kubecdc/change"
)

// Redactions makes the inventory follow a change of what may be kept of objects.
type Redactions interface {
	// Redacted gives the rules that Redact noted last, by stream; they are empty for a known stream that has none.
	Redacted(ctx context.Context) (map[change.StreamID]string, error)
	// Redact rewrites the bodies of the streams, and then notes their rules. ErrFenced as for Commit. After an error some bodies
	// may have been rewritten, and the rules of some streams noted.
	Redact(ctx context.Context, slot int, epoch int64, streams []Redaction) error
}

// Redaction says how a stream's bodies are rewritten.
type Redaction struct {
	Stream change.StreamID
	Rules  string
	// Rewrite gives the new body; nil drops the body. Where Rewrite itself is nil the bodies stay as they are.
	Rewrite func(key string, body []byte) []byte
}

// Rewritten gives what a store keeps instead of a body, if that is anything else: always a new base where there is a delta, since
// the former base may have more than the delta shows. What can't be unpacked is dropped.
func (r *Redaction) Rewritten(key string, stored Body) (now Body, changed bool) {
	body, err := stored.Unpack()
	if err != nil {
		return Body{}, true
	}
	text := r.Rewrite(key, body)
	if text != nil && stored.Delta == nil && bytes.Equal(text, body) {
		return stored, false
	}
	return Pack(text), true
}

package checkpoint

import (
	"bytes"
	"context"

	"kubecdc/change"
)

// Redactions changes stored bodies when the redaction rules change.
type Redactions interface {
	// Redacted returns the rules of the last Redact, by stream. They are empty for a known stream without rules.
	Redacted(ctx context.Context) (map[change.StreamID]string, error)
	// Redact rewrites the bodies of the streams, then records their rules. It fails with ErrFenced like Commit. After an error
	// some bodies may have been rewritten, and the rules of some streams recorded.
	Redact(ctx context.Context, slot int, epoch int64, streams []Redaction) error
}

// Redaction has a stream's new redaction rules, and rewrites its stored bodies by them.
type Redaction struct {
	Stream change.StreamID
	Rules  string // a description of the rules, which Redacted returns later
	// Rewrite returns the new body, or nil to drop it. If Rewrite is nil, the bodies remain unchanged.
	Rewrite func(key string, body []byte) []byte
}

// Rewritten returns what a store stores instead of a body, and whether that differs. Instead of a delta it returns a new base,
// since the old base may contain more than the delta shows. A damaged body is dropped.
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

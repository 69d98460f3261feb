package sqlite

import (
	"encoding/json"

	"kubecdc/change"
)

// storedPosition is a position as log_batches has it: an array, without the zeros at its end. Mostly a batch has one change and one
// position, so each character counts.
type storedPosition struct {
	stream  int64
	version change.ResourceVersion
	ago     int64 // milliseconds before the batch was written
	marked  int   // 1: the batch has a watermark that says the same
	ended   change.Ended
}

// marks reports whether a control record is the watermark of a position.
func marks(c *change.Control, p *change.Position) bool {
	return c.Type == change.ControlWatermark && c.Stream == p.Stream && c.ResourceVersion == p.ResourceVersion && c.TimeMs == p.Time.UnixMilli()
}

// MarshalJSON implements json.Marshaler.
func (p storedPosition) MarshalJSON() ([]byte, error) {
	all := []any{p.stream, storedVersion(p.version), p.ago, p.marked, p.ended}
	if p.ended == "" {
		all = all[:4]
		if p.marked == 0 {
			all = all[:3]
		}
	}
	return json.Marshal(all)
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *storedPosition) UnmarshalJSON(text []byte) error {
	var version json.RawMessage
	if err := json.Unmarshal(text, &[]any{&p.stream, &version, &p.ago, &p.marked, &p.ended}); err != nil {
		return err
	}
	if len(version) == 0 || version[0] == '"' {
		return json.Unmarshal(version, &p.version)
	}
	p.version = change.ResourceVersion(version)
	return nil
}

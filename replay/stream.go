package replay

import (
	"bytes"
	"context"
	"io"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Stream is a Target that can't be read back: standard output.
type Stream struct {
	out  io.Writer
	id   string
	text bytes.Buffer
}

var _ Target = (*Stream)(nil)

func NewStream(w io.Writer) *Stream { return &Stream{out: w} }

func (s *Stream) Open(_ context.Context, id string, _ func(*change.Control) error) error {
	s.id = id
	return nil
}

// Write writes the records without the control record. Only the last control record would matter to a reader, who sees the end
// anyway.
func (s *Stream) Write(_ context.Context, changes []sinks.Logged, _ *change.Control) error {
	s.text.Reset()
	for i := range changes {
		if err := appendLines(&s.text, s.id, &changes[i]); err != nil {
			return err
		}
	}
	_, err := s.out.Write(s.text.Bytes())
	return err
}

// Close does nothing, since each Write is complete.
func (s *Stream) Close() error { return nil }

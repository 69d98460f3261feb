package replay

import (
	"bytes"
	"context"
	"io"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Stream is a Target that nothing can be read back from: standard output.
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

// Write writes the records alone: of the control records only the last one would mean anything to a reader, who sees the end.
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

// Close does nothing: each Write has written all.
func (s *Stream) Close() error { return nil }

// Package stdout writes the changes to a terminal or a pipe: to look at a cluster, and to try kubecdc out. It is
// not durable: nothing is recovered and nobody is fenced, so the lines of a batch that was written but not yet
// checkpointed are written again after a crash; and what the reader of the pipe had not read is gone.
//
// On a pipe each line is a JSON object. A change has op; a control record and what could not be read have type, and no op.
package stdout

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Kind is the sink's.
var Kind = sinks.Kind{Name: "stdout", Stdout: true}

// Format is how a change is shown.
type Format string

// The formats.
const (
	Auto Format = ""     // Text on a terminal, JSON elsewhere
	JSON Format = "json" // the envelope's value, one change a line; control records likewise
	Text Format = "text" // one short line a change, coloured where the terminal has colours
)

// Options are all optional but the envelope.
type Options struct {
	Envelope change.Envelope
	Out      io.Writer // default os.Stdout
	Format   Format
}

// Sink writes lines.
type Sink struct {
	sinks.NoServer

	mu    sync.Mutex // the lines of one batch stand together
	out   *bufio.Writer
	lines lines
}

var _ sinks.Sink = (*Sink)(nil)

// lines shows changes, control records and what could not be read; one that shows nothing appends nothing.
type lines interface {
	change(dst []byte, c *change.Change) []byte
	control(dst []byte, c *change.Control) []byte
	malformed(dst []byte, m *change.Malformed) []byte
}

// New makes the sink.
func New(o Options) *Sink {
	if o.Out == nil {
		o.Out = os.Stdout
	}
	s := &Sink{out: bufio.NewWriterSize(o.Out, 64<<10), lines: &jsonLines{o.Envelope}}
	terminal := isTerminal(o.Out)
	if o.Format == Text || o.Format == Auto && terminal {
		s.lines = newTextLines(terminal && os.Getenv("NO_COLOR") == "")
	}
	return s
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Open recovers nothing.
func (s *Sink) Open(context.Context, int, int64, sinks.Durable) (*sinks.Opened, error) {
	return &sinks.Opened{Log: &log{s}, Tail: sinks.NoTail}, nil
}

// Meet finds nothing: nobody can tell what was written before.
func (s *Sink) Meet(context.Context, int, sinks.Durable) error { return nil }

// Identity is the same wherever the lines go: nobody can tell.
func (s *Sink) Identity(context.Context) (string, error) { return Kind.Name, nil }

// Close leaves the file open: it is not ours.
func (s *Sink) Close() error { return nil }

type log struct{ sink *Sink }

// Write shows the batch's changes and what could not be read, and of its control records those that a reader must
// know.
func (l *log) Write(ctx context.Context, b *change.Batch) (change.Offsets, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := l.sink
	s.mu.Lock()
	defer s.mu.Unlock()
	s.controls(b, false)
	var line []byte
	for i := range b.Malformed {
		line = s.lines.malformed(line[:0], &b.Malformed[i])
		s.out.Write(line) // its error is kept until Flush
	}
	for i := range b.Changes {
		line = s.lines.change(line[:0], &b.Changes[i])
		s.out.Write(line)
	}
	s.controls(b, true)
	if err := s.out.Flush(); err != nil {
		return nil, fmt.Errorf("write to stdout: %w", err)
	}
	return nil, nil
}

// controls writes the control records of a batch that end something, which stand after its changes, or the others. Only a
// terminal or a pipe has one order for all: what is told of an end holds of all lines before it.
func (s *Sink) controls(b *change.Batch, ends bool) {
	var line []byte
	for _, c := range b.Controls {
		if isEnd := c.Type == change.ControlSnapshotEnd || c.Type == change.ControlStreamEnd; isEnd == ends {
			c.Slot, c.Epoch, c.Batch = b.Slot, b.Epoch, b.Seq
			line = s.lines.control(line[:0], &c)
			s.out.Write(line)
		}
	}
}

// Past is empty, as for a log that was never written to.
func (l *log) Past(context.Context, sinks.Wanted) (*sinks.Past, error) {
	fold := func(context.Context, func(*change.Change) error, func(sinks.Folded)) (f sinks.Folded, err error) {
		return
	}
	return &sinks.Past{Fold: fold}, nil
}

func (l *log) Close() error { return nil }

// jsonLines shows what Kafka's readers would see as the record's value.
type jsonLines struct{ envelope change.Envelope }

func (j *jsonLines) change(dst []byte, c *change.Change) []byte {
	return append(j.envelope.AppendValue(dst, c), '\n')
}

// control shows what Kafka's readers would see as the value of a record of the control topic. What only tells how far the log
// is (batch, watermark) or who writes it (open, layout) is left out.
func (j *jsonLines) control(dst []byte, c *change.Control) []byte {
	switch c.Type {
	case change.ControlBatch, change.ControlWatermark, change.ControlOpen, change.ControlLayout:
		return dst
	}
	c.Cluster = j.envelope.Cluster
	text, _ := json.Marshal(c) // strings and numbers always can be
	return append(append(dst, text...), '\n')
}

// malformed has the bytes as text where they are text, else in base64.
func (j *jsonLines) malformed(dst []byte, m *change.Malformed) []byte {
	line := struct {
		Type    string `json:"type"`
		Cluster string `json:"cluster"`
		Stream  string `json:"stream"`
		Reason  string `json:"reason"`
		Text    string `json:"text,omitempty"`
		Base64  []byte `json:"base64,omitempty"`
	}{Type: "malformed", Cluster: j.envelope.Cluster, Stream: string(m.Stream), Reason: m.Reason}
	if utf8.Valid(m.Bytes) {
		line.Text = string(m.Bytes)
	} else {
		line.Base64 = m.Bytes
	}
	text, _ := json.Marshal(&line) // strings and bytes always can be
	return append(append(dst, text...), '\n')
}

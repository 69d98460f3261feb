// Package stdout writes the changes to a terminal or a pipe, to watch a cluster and to try kubecdc. It is not durable: it reads
// nothing back, and fences nobody. So after a crash, the lines of a batch that was not yet checkpointed are written again. Lines
// that the reader of the pipe had not read are lost.
//
// On a pipe each line is a JSON object. A change has op. A control record or a malformed event has type, and no op.
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

	"kubecdc/change"
	"kubecdc/internal/screen"
	"kubecdc/sinks"
)

var Kind = sinks.Kind{Name: "stdout", Page: "docs/operations.md"}

// Format is the form of a line.
type Format string

const (
	Auto Format = ""     // Text on a terminal, JSON elsewhere
	JSON Format = "json" // the envelope's value, one line for each change or control record
	Text Format = "text" // one short line for each change, coloured if the terminal has colours
)

// Options are all optional, except the envelope.
type Options struct {
	Envelope change.Envelope
	Out      io.Writer // default os.Stdout
	Format   Format
	Show     Show // for the format Text
}

type Sink struct {
	sinks.NoServer

	mu    sync.Mutex // so that the lines of one batch are not mixed with others
	out   *bufio.Writer
	lines lines
}

var _ sinks.Sink = (*Sink)(nil)

// lines formats changes, control records and malformed events. It appends nothing for what is not printed.
type lines interface {
	change(dst []byte, c *change.Change) []byte
	control(dst []byte, c *change.Control) []byte
	malformed(dst []byte, m *change.Malformed) []byte
}

// New returns a sink that writes to Options.Out, by default standard output.
func New(o Options) *Sink {
	if o.Out == nil {
		o.Out = os.Stdout
	}
	s := &Sink{out: bufio.NewWriterSize(o.Out, 64<<10), lines: &jsonLines{o.Envelope}}
	if o.Format == Text || o.Format == Auto && screen.IsTerminal(o.Out) {
		s.lines = newTextLines(o.Show, screen.NewColours(screen.IsColourful(o.Out) || o.Show.Screen != nil &&
			o.Show.Screen.Colours.Enabled))
	}
	return s
}

// Open reads nothing back.
func (s *Sink) Open(context.Context, int, int64, sinks.Durable) (*sinks.Opened, error) {
	l := &log{s}
	return &sinks.Opened{Log: l, Content: l, Tail: sinks.NoTail}, nil
}

// VerifyCluster accepts every cluster, since nothing can be read back.
func (s *Sink) VerifyCluster(context.Context, int, sinks.Durable) error { return nil }

// Identity is always the same, since the destination of the lines is unknown.
func (s *Sink) Identity(context.Context) (string, error) { return Kind.Name, nil }

// Close leaves the file open, since the sink did not open it.
func (s *Sink) Close() error { return nil }

type log struct{ sink *Sink }

// Has returns false, since nothing can be read back.
func (l *log) Has(context.Context, *change.Stream) (bool, error) { return false, nil }

// Write prints the batch's changes and malformed events, and the control records that a reader needs.
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
		s.out.Write(line) // Flush returns its error
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

// controls prints a batch's control records. With ends it prints the records that end a snapshot or a stream, which come after
// the changes. Otherwise it prints the other records. A terminal or a pipe has one order for all lines, so an end applies to all
// lines before it.
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

// State is empty, as for a log without records.
func (l *log) State(context.Context, sinks.Selection) (*sinks.State, error) {
	fold := func(context.Context, func(*change.Change) error, func(sinks.Progress)) (f sinks.Progress, err error) {
		return
	}
	return &sinks.State{Fold: fold}, nil
}

func (l *log) Close() error { return nil }

// jsonLines prints the values of the records that Kafka's consumers would get.
type jsonLines struct{ envelope change.Envelope }

func (j *jsonLines) change(dst []byte, c *change.Change) []byte {
	return append(j.envelope.AppendValue(dst, c), '\n')
}

// control prints the value of the control record that Kafka's consumers would get. It leaves out records about the progress of
// the log (batch, watermark, current) and its writers (open, settings, layout).
func (j *jsonLines) control(dst []byte, c *change.Control) []byte {
	switch c.Type {
	case change.ControlBatch, change.ControlWatermark, change.ControlOpen, change.ControlSettings, change.ControlLayout,
		change.ControlCurrent:
		return dst
	}
	c.Cluster = j.envelope.Cluster
	text, _ := json.Marshal(c) // can't fail: strings and numbers
	return append(append(dst, text...), '\n')
}

// malformed prints the bytes as text if they are valid text, else in base64.
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
	text, _ := json.Marshal(&line) // can't fail: strings and bytes
	return append(append(dst, text...), '\n')
}

package stdout

import (
	"fmt"
	"strings"
	"time"

	"github.com/fatih/color"

	"kubecdc/change"
)

// textLines prints a change as one line:
//
//	15:04:05 updated pods default/web-1 (1234) spec.replicas, status
type textLines struct {
	words           map[change.Op]string // padded and coloured
	dim, alert      *color.Color
	resource, where int // widths of the columns, which grow
}

const columnLimit = 48

func newTextLines(colours bool) *textLines {
	paint := func(attributes ...color.Attribute) *color.Color {
		c := color.New(attributes...)
		if colours {
			c.EnableColor()
		} else {
			c.DisableColor()
		}
		return c
	}
	return &textLines{
		words: map[change.Op]string{
			change.Create: paint(color.FgGreen).Sprint("created"),
			change.Update: paint(color.FgYellow).Sprint("updated"),
			change.Delete: paint(color.FgRed).Sprint("deleted"),
			change.Read:   paint(color.FgCyan).Sprint("read   "),
		},
		dim: paint(color.Faint), alert: paint(color.FgRed, color.Bold),
	}
}

func (t *textLines) change(dst []byte, c *change.Change) []byte {
	resource := column(&t.resource, c.Stream.Resource.ID())
	key := column(&t.where, c.Key())
	dst = fmt.Appendf(dst, "%s %s %s %s %s", clock(c.Time), t.words[c.Op], resource, key, t.dim.Sprint("("+c.ResourceVersion+")"))
	if what := t.what(c); what != "" {
		dst = append(dst, ' ')
		dst = append(dst, what...)
	}
	return append(dst, '\n')
}

// what says which fields an update changed, and that a change was inferred or recovered.
func (t *textLines) what(c *change.Change) string {
	var words []string
	if len(c.Told.Fields) > 0 {
		words = append(words, summary(strings.Split(string(c.Told.Fields), ",")))
	}
	switch {
	case c.Inferred:
		words = append(words, t.dim.Sprint("[inferred]"))
	case c.Gap != "":
		words = append(words, t.dim.Sprint("[recovered]"))
	}
	return strings.Join(words, " ")
}

// summary names a few of the paths.
func summary(paths []string) string {
	const most = 4
	if len(paths) > most {
		return strings.Join(paths[:most], ", ") + fmt.Sprintf(" +%d", len(paths)-most)
	}
	return strings.Join(paths, ", ")
}

// words are those of control records, as wide as those of changes.
var words = map[string]string{change.ControlStreamError: "error  ", change.ControlStreamEnd: "ended  ",
	change.ControlStreamPaused: "paused "}

// control prints what a reader needs to understand the stream: gaps, errors, the end of a snapshot.
func (t *textLines) control(dst []byte, c *change.Control) []byte {
	at := clock(time.UnixMilli(c.TimeMs))
	switch c.Type {
	case change.ControlGap:
		return t.gap(dst, at, c)
	case change.ControlStreamError, change.ControlStreamEnd, change.ControlStreamPaused:
		return fmt.Appendf(dst, "%s %s %s: %s\n", at, t.alert.Sprint(words[c.Type]), c.Stream, c.Cause)
	case change.ControlProof:
		if c.Proof == nil || c.Proof.Result != change.ProofDifferent {
			return dst
		}
		return fmt.Appendf(dst, "%s %s %s: the API server differs at %s: %s\n", at, t.alert.Sprint("differs"), c.Stream, c.ResourceVersion, c.Proof)
	case change.ControlStreamRecovered, change.ControlStreamResume, change.ControlStreamResumed:
		return fmt.Appendf(dst, "%s %s\n", at, t.dim.Sprintf("%s: resumes: %s", c.Stream, c.Cause))
	case change.ControlSnapshotEnd:
		objects := "all"
		if c.Objects != nil {
			objects = fmt.Sprint(*c.Objects)
		}
		return fmt.Appendf(dst, "%s %s\n", at, t.dim.Sprintf("%s: %s objects read, now watching from %s", c.Stream, objects, c.ResourceVersion))
	}
	return dst
}

func (t *textLines) gap(dst []byte, at string, c *change.Control) []byte {
	if c.Gap == nil {
		return dst
	}
	verdict := "complete"
	if !c.Gap.Complete {
		verdict = "NOT complete: " + c.Gap.Reason
	}
	return fmt.Appendf(dst, "%s %s %s from %s to %s: %d recovered, %d inferred, %s\n", at, t.alert.Sprint("gap    "),
		c.Stream, c.Gap.From, c.Gap.To, c.Gap.Recovered, c.Gap.Inferred, verdict)
}

// malformed prints how long a malformed event is, how it begins, and why it can't be parsed.
func (t *textLines) malformed(dst []byte, m *change.Malformed) []byte {
	const most = 60
	begins := m.Bytes[:min(len(m.Bytes), most)]
	return fmt.Appendf(dst, "%s %s %s: %d bytes from the API server can't be parsed: %s: %q\n", clock(time.Now()),
		t.alert.Sprint("malformed"), m.Stream, len(m.Bytes), m.Reason, begins)
}

func clock(at time.Time) string { return at.Local().Format(time.TimeOnly) }

// column pads a text to the widest so far.
func column(width *int, text string) string {
	*width = max(*width, min(len(text), columnLimit))
	return fmt.Sprintf("%-*s", *width, text)
}

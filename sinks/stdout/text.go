package stdout

import (
	"fmt"
	"strings"
	"time"

	"github.com/fatih/color"

	"kubecdc/change"
	"kubecdc/internal/plain"
)

// textLines prints a change as one line:
//
//	15:04:05 updated pods default/web-1 (1234) spec.replicas, status
type textLines struct {
	words           map[change.Op]plain.Own // padded and coloured
	dim, alert      paint
	resource, where int // widths of the columns, which grow
}

const columnLimit = 48

// paint does what plain.Sprintf does, in a colour.
type paint func(format string, args ...any) plain.Own

func newTextLines(colours bool) *textLines {
	in := func(attributes ...color.Attribute) paint {
		c := color.New(attributes...)
		if colours {
			c.EnableColor()
		} else {
			c.DisableColor()
		}
		return func(format string, args ...any) plain.Own {
			return plain.Own(c.Sprint(string(plain.Sprintf(format, args...))))
		}
	}
	return &textLines{
		words: map[change.Op]plain.Own{
			change.Create: in(color.FgGreen)("created"),
			change.Update: in(color.FgYellow)("updated"),
			change.Delete: in(color.FgRed)("deleted"),
			change.Read:   in(color.FgCyan)("read   "),
		},
		dim: in(color.Faint), alert: in(color.FgRed, color.Bold),
	}
}

func (t *textLines) change(dst []byte, c *change.Change) []byte {
	resource := column(&t.resource, c.Stream.Resource.ID())
	key := column(&t.where, c.Key())
	dst = plain.Appendf(dst, "%s %s %s %s %s", clock(c.Time), t.words[c.Op], resource, key, t.dim("(%s)", c.ResourceVersion))
	for _, what := range t.what(c) {
		dst = plain.Appendf(dst, " %s", what)
	}
	return append(dst, '\n')
}

// what says which fields an update changed, and that a change was inferred or recovered.
func (t *textLines) what(c *change.Change) (words []plain.Own) {
	if len(c.Provenance.Fields) > 0 {
		words = append(words, plain.Sprintf("%s", summary(strings.Split(string(c.Provenance.Fields), ","))))
	}
	switch {
	case c.Inferred:
		words = append(words, t.dim("[inferred]"))
	case c.Gap != "":
		words = append(words, t.dim("[recovered]"))
	}
	return words
}

func summary(paths []string) string {
	const most = 4
	if len(paths) > most {
		return strings.Join(paths[:most], ", ") + fmt.Sprintf(" +%d", len(paths)-most)
	}
	return strings.Join(paths, ", ")
}

// words are those of control records, as wide as those of changes.
var words = map[change.ControlType]string{change.ControlStreamError: "error  ", change.ControlStreamEnd: "ended  ",
	change.ControlStreamPaused: "paused "}

// control prints what a reader needs to understand the stream: gaps, errors, the end of a snapshot.
func (t *textLines) control(dst []byte, c *change.Control) []byte {
	at := clock(time.UnixMilli(c.TimeMs))
	switch c.Type {
	case change.ControlGap:
		return t.gap(dst, at, c)
	case change.ControlStreamError, change.ControlStreamEnd, change.ControlStreamPaused:
		return plain.Appendf(dst, "%s %s %s: %s\n", at, t.alert(words[c.Type]), c.Stream, c.Cause)
	case change.ControlProof:
		if c.Proof == nil || c.Proof.Result != change.ProofDifferent {
			return dst
		}
		return plain.Appendf(dst, "%s %s %s: the API server differs at %s: %s\n", at, t.alert("differs"), c.Stream, c.ResourceVersion, c.Proof)
	case change.ControlStreamRecovered, change.ControlStreamReselected, change.ControlStreamResumed:
		return plain.Appendf(dst, "%s %s\n", at, t.dim("%s: resumes: %s", c.Stream, c.Cause))
	case change.ControlSnapshotEnd:
		objects := "all"
		if c.Objects != nil {
			if *c.Objects == 0 { // most of a cluster's resources
				return dst
			}
			objects = fmt.Sprint(*c.Objects)
		}
		return plain.Appendf(dst, "%s %s\n", at, t.dim("%s: %s objects read, now watching from %s", c.Stream, objects, c.ResourceVersion))
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
	return plain.Appendf(dst, "%s %s %s from %s to %s: %d recovered, %d inferred, %s\n", at, t.alert("gap    "),
		c.Stream, c.Gap.From, c.Gap.To, c.Gap.Recovered, c.Gap.Inferred, verdict)
}

// malformed prints how long a malformed event is, how it begins, and why it can't be parsed.
func (t *textLines) malformed(dst []byte, m *change.Malformed) []byte {
	const most = 60
	begins := m.Bytes[:min(len(m.Bytes), most)]
	return plain.Appendf(dst, "%s %s %s: %d bytes from the API server can't be parsed: %s: %q\n", clock(time.Now()),
		t.alert("malformed"), m.Stream, len(m.Bytes), m.Reason, begins)
}

func clock(at time.Time) string { return at.Local().Format(time.TimeOnly) }

// column pads a text, as it is printed, to the widest so far.
func column(width *int, text string) string {
	text = plain.Escape(text)
	*width = max(*width, min(len(text), columnLimit))
	return fmt.Sprintf("%-*s", *width, text)
}

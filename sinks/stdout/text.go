package stdout

import (
	"fmt"
	"strings"
	"time"

	"github.com/fatih/color"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/change"
	"kubecdc/change/provenance"
	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
)

// textLines prints a change as one line, for people:
//
//	15:04:05 ~ deploy/web -n shop  spec.replicas, status  by kubectl-edit
//
// What a first list reads, and what a cluster does all the time by itself, is left out.
type textLines struct {
	Show
	colours    *screen.Colours
	dim, alert paint
	failed     map[change.StreamID]bool // the streams whose last error was shown
}

// Show says which changes are shown on a terminal.
type Show struct {
	Screen *screen.Screen    // nil: lines have no limit
	All    bool              // of bookkeeping too
	Named  func(string) bool // the resources whose bookkeeping is asked for; nil: none
}

// paint does what plain.Sprintf does, in a colour.
type paint func(format string, args ...any) plain.Own

func newTextLines(show Show, colours *screen.Colours) *textLines {
	in := func(c *color.Color) paint {
		return func(format string, args ...any) plain.Own {
			return plain.Own(c.Sprint(string(plain.Sprintf(format, args...))))
		}
	}
	return &textLines{Show: show, colours: colours, dim: in(colours.Dim), alert: in(colours.Alert), failed: map[change.StreamID]bool{}}
}

// unlimited is the width of lines elsewhere than on a terminal.
const unlimited = 1 << 20

func (t *textLines) change(dst []byte, c *change.Change) []byte {
	resource := c.Stream.Resource.ID()
	if c.Op == change.Read && !t.All || !t.All && (t.Named == nil || !t.Named(resource)) && provenance.IsBookkeeping(c) {
		return dst
	}
	line := screen.Change{At: c.Time, Op: c.Op, Resource: resource, Namespace: c.Namespace, Name: c.Name,
		By: strings.ReplaceAll(string(c.Provenance.Managers), ",", ", ")}
	if len(c.Provenance.Fields) > 0 {
		line.What = summary(strings.Split(string(c.Provenance.Fields), ","))
	}
	switch {
	case c.Inferred:
		line.Notes = []string{"inferred"}
	case c.Gap != "":
		line.Notes = []string{"recovered"}
	}
	width := unlimited
	if t.Screen != nil {
		width = t.Screen.Columns()
	}
	return append(append(dst, line.Line(width, t.colours, time.Now())...), '\n')
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

// control prints what a reader needs to understand the stream: gaps, errors, pauses.
func (t *textLines) control(dst []byte, c *change.Control) []byte {
	at := clock(time.UnixMilli(c.TimeMs))
	if c.Type == change.ControlStreamRecovered && !t.failed[c.Stream] || t.Screen != nil && c.Type == change.ControlStreamError &&
		(strings.Contains(c.Cause, "is forbidden") || c.Cause == string(metav1.StatusReasonUnauthorized)) {
		return dst // whoever has the screen says it once for all resources
	}
	switch c.Type {
	case change.ControlStreamError:
		t.failed[c.Stream] = true
	case change.ControlStreamRecovered:
		delete(t.failed, c.Stream)
	}
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
	}
	return dst
}

func (t *textLines) gap(dst []byte, at string, c *change.Control) []byte {
	if c.Gap == nil || t.Screen != nil && c.Gap.Complete { // whoever has the screen says it once for all resources
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

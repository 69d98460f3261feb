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
//	15:04:05 ~ deploy/web -n shop  spec.replicas 2 → 3, status.replicas 2 → 3  by kubectl-edit
//
// It leaves out what a first list reads, and what a cluster does all the time by itself.
type textLines struct {
	Show
	colours    *screen.Colours
	dim, alert paint
	failed     map[change.StreamID]bool // streams whose last error was shown
}

// Show selects the changes on a terminal.
type Show struct {
	Screen *screen.Screen    // nil: lines have no maximal length
	All    bool              // also show bookkeeping
	Named  func(string) bool // resources whose bookkeeping the user selected; nil: none
	// What describes the differences between two states. If it is nil or returns "", the names of the changed fields are shown.
	What func(before, after []byte) string
}

// paint is plain.Sprintf in a colour.
type paint func(format string, args ...any) plain.Own

func newTextLines(show Show, colours *screen.Colours) *textLines {
	in := func(c *color.Color) paint {
		return func(format string, args ...any) plain.Own {
			return plain.Own(c.Sprint(string(plain.Sprintf(format, args...))))
		}
	}
	return &textLines{Show: show, colours: colours, dim: in(colours.Dim), alert: in(colours.Alert),
		failed: map[change.StreamID]bool{}}
}

// unlimited is the width of lines outside of a terminal.
const unlimited = 1 << 20

func (t *textLines) change(dst []byte, c *change.Change) []byte {
	resource := c.Stream.Resource.ID()
	if c.Op == change.Read && !t.All || !t.All && (t.Named == nil || !t.Named(resource)) && provenance.IsBookkeeping(c) {
		return dst
	}
	line := screen.Change{Time: c.Time, Op: c.Op, Resource: resource, Namespace: c.Namespace, Name: c.Name,
		Author: strings.ReplaceAll(string(c.Provenance.Managers), ",", ", ")}
	if t.What != nil && c.Op == change.Update && c.Before != nil && c.After != nil {
		line.What = t.What(c.Before, c.After)
	}
	if line.What == "" && len(c.Provenance.Fields) > 0 {
		line.What = summary(strings.Split(string(c.Provenance.Fields), ","))
	}
	switch {
	case c.Inferred:
		line.Remarks = []string{"inferred"}
	case c.Gap != "":
		line.Remarks = []string{"recovered"}
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

// words are the words for control records, padded to the width of the words for changes.
var words = map[change.ControlType]string{change.ControlStreamError: "error  ", change.ControlStreamEnd: "ended  ",
	change.ControlStreamPaused: "paused "}

// control prints what a reader needs to understand the stream: gaps, errors, pauses.
func (t *textLines) control(dst []byte, c *change.Control) []byte {
	stamp := clock(time.UnixMilli(c.TimeMs))
	if c.Type == change.ControlStreamRecovered && !t.failed[c.Stream] || t.Screen != nil && c.Type == change.ControlStreamError &&
		(strings.Contains(c.Cause, "is forbidden") || c.Cause == string(metav1.StatusReasonUnauthorized)) {
		return dst // the display says it once for all resources
	}
	switch c.Type {
	case change.ControlStreamError:
		t.failed[c.Stream] = true
	case change.ControlStreamRecovered:
		delete(t.failed, c.Stream)
	}
	switch c.Type {
	case change.ControlGap:
		return t.gap(dst, stamp, c)
	case change.ControlStreamError, change.ControlStreamEnd, change.ControlStreamPaused:
		return plain.Appendf(dst, "%s %s %s: %s\n", stamp, t.alert(words[c.Type]), c.Stream, c.Cause)
	case change.ControlProof:
		if c.Proof == nil || c.Proof.Result != change.ProofDifferent {
			return dst
		}
		return plain.Appendf(dst, "%s %s %s: the API server differs at %s: %s\n", stamp, t.alert("differs"), c.Stream,
			c.ResourceVersion, c.Proof)
	case change.ControlStreamRecovered, change.ControlStreamReselected, change.ControlStreamResumed:
		return plain.Appendf(dst, "%s %s\n", stamp, t.dim("%s: resumes: %s", c.Stream, c.Cause))
	}
	return dst
}

func (t *textLines) gap(dst []byte, stamp string, c *change.Control) []byte {
	if c.Gap == nil || t.Screen != nil && c.Gap.Complete { // the display says it once for all resources
		return dst
	}
	verdict := "complete"
	if !c.Gap.Complete {
		verdict = "NOT complete: " + c.Gap.Reason
	}
	return plain.Appendf(dst, "%s %s %s from %s to %s: %d recovered, %d inferred, %s\n", stamp, t.alert("gap    "),
		c.Stream, c.Gap.From, c.Gap.To, c.Gap.Recovered, c.Gap.Inferred, verdict)
}

// malformed prints the length of a malformed event, its beginning, and why it can't be parsed.
func (t *textLines) malformed(dst []byte, m *change.Malformed) []byte {
	const most = 60
	begins := m.Bytes[:min(len(m.Bytes), most)]
	return plain.Appendf(dst, "%s %s %s: %d bytes from the API server can't be parsed: %s: %q\n", clock(time.Now()),
		t.alert("malformed"), m.Stream, len(m.Bytes), m.Reason, begins)
}

func clock(stamp time.Time) string { return stamp.Local().Format(time.TimeOnly) }

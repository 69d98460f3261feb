package status

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"kubecdc/change"
)

// WriteTable writes the status for a terminal, with tabs between columns.
func (s *Status) WriteTable(t io.Writer) {
	state := "✓ all is well"
	if !s.Healthy {
		state = fmt.Sprintf("✕ %d wrong", len(s.Problems))
	}
	fmt.Fprintf(t, "%s: %s, as of %s\n", cmp.Or(plain(s.Cluster), "kubecdc"), state, stamp(s.Time))
	for _, p := range s.Problems {
		since := ""
		if !p.Since.IsZero() {
			since = fmt.Sprintf(" (for %s)", Age(s.Time.Sub(p.Since)))
		}
		fmt.Fprintf(t, "  ✕ %s: %s%s\n", p.Component, plain(p.Text), since)
	}
	if len(s.Servers) > 0 {
		fmt.Fprintln(t, "\nSERVER\tADDRESS\tSTATE")
		for _, v := range s.Servers {
			state := "up"
			if !v.Up {
				state = "down"
			}
			fmt.Fprintf(t, "%s\t%s\t%s for %s\n", v.Name, dash(v.Address), state, Age(s.Time.Sub(v.Since)))
		}
	}
	fmt.Fprintln(t, "\nSLOT\tOWNER\tSTREAMS\tEPOCH\tBATCH\tCHECKPOINT")
	for _, v := range s.Slots {
		owner := v.Owner
		switch {
		case v.Unknown:
			owner += " (may have ended)"
		case !v.Held && owner != "":
			owner = "nobody (last: " + owner + ")"
		}
		fmt.Fprintf(t, "%d\t%s\t%d\t%d\t%d\t%s\n", v.Number, cmp.Or(owner, "nobody"), v.Streams, v.Epoch, v.Batch, s.ago(v.Checkpoint))
	}
	fmt.Fprintln(t, "\n\tRESOURCE\tNAMESPACE\tSLOT\tSTATE\tCOMPLETE UP TO\tCONFIRMED\tCHANGES\tLAST GAP\tLAST PROOF")
	for i := range s.Streams {
		s.writeStream(t, &s.Streams[i])
	}
}

func (s *Status) writeStream(t io.Writer, v *Stream) {
	mark, namespace, rate := "✓", cmp.Or(v.Namespace, "*"), "-"
	if v.Problem != "" {
		mark = "✕"
	}
	if v.Selectors {
		namespace += " (selectors)"
	}
	if v.Rate != nil {
		rate = perSecond(*v.Rate)
	}
	gap, proof := "-", "-"
	if g := v.Gap; g != nil {
		gap = "incomplete, " + s.ago(g.Time)
		if g.Complete {
			gap = "complete, " + s.ago(g.Time)
		}
	}
	switch p := v.Proof; {
	case p == nil:
	case p.Result == change.ProofDifferent:
		proof = fmt.Sprintf("%d differ, %s", p.Differences, s.ago(p.Time))
	default:
		proof = string(p.Result) + ", " + s.ago(p.Time)
	}
	fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", mark, v.Resource, namespace, v.Slot, v.State,
		dash(string(v.Position)), s.ago(v.Confirmed), rate, gap, proof)
}

func (s *Status) ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return Age(s.Time.Sub(t)) + " ago"
}

// plain is a text on one line that can't control a terminal: a server's error may have anything.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

func dash(text string) string { return cmp.Or(text, "-") }

package status

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"kubecdc/change"
	"kubecdc/internal/plain"
)

// WriteTable writes the status for a terminal, with tabs between columns.
func (s *Status) WriteTable(t io.Writer) {
	state := "✓ all is well"
	if !s.Healthy {
		state = fmt.Sprintf("✕ %d wrong", len(s.Problems))
	}
	plain.Fprintf(t, "%s: %s, as of %s\n", cmp.Or(s.Cluster, "kubecdc"), state, stamp(s.Time))
	for _, p := range s.Problems {
		since := ""
		if !p.Since.IsZero() {
			since = fmt.Sprintf(" (for %s)", Age(s.Time.Sub(p.Since)))
		}
		plain.Fprintf(t, "  ✕ %s: %s%s\n", p.Component, p.Text, since)
		if p.Count > 1 {
			plain.Fprintf(t, "    %s\n", p.streamNames())
		}
		plain.Fprintf(t, "    %s: see %s\n", p.Help, p.See)
	}
	for _, p := range s.Past {
		plain.Fprintf(t, "  past: %s: %s (for %s, until %s ago)\n", p.Component, p.Text, Age(p.Until.Sub(p.Since)),
			Age(s.Time.Sub(p.Until)))
	}
	if len(s.Servers) > 0 {
		plain.Fprintf(t, "\nSERVER\tADDRESS\tSTATE\n")
		for _, v := range s.Servers {
			state := "up"
			if !v.Up {
				state = "down"
			}
			plain.Fprintf(t, "%s\t%s\t%s for %s\n", v.Name, dash(v.Address), state, Age(s.Time.Sub(v.Since)))
		}
	}
	if s.Log != nil {
		plain.Fprintf(t, "\n")
	}
	for _, line := range s.logInShort() {
		plain.Fprintf(t, "%s\n", line)
	}
	plain.Fprintf(t, "\nSLOT\tOWNER\tSTREAMS\tEPOCH\tBATCH\tCHECKPOINT\n")
	for _, v := range s.Slots {
		owner := v.Owner
		if !v.Held && owner != "" {
			owner = "nobody (last: " + owner + ")"
		}
		plain.Fprintf(t, "%d\t%s\t%d\t%d\t%d\t%s\n", v.Number, cmp.Or(owner, "nobody"), v.Streams, v.Epoch, v.Batch,
			s.ago(v.Checkpoint))
	}
	plain.Fprintf(t, "\n\tRESOURCE\tNAMESPACE\tSLOT\tSTATE\tCOMPLETE UP TO\tCONFIRMED\tCHANGES\tLAST GAP\tLAST PROOF\n")
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
	plain.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", mark, v.Resource, namespace, v.Slot, v.State,
		dash(string(v.Position)), s.ago(v.Confirmed), rate, gap, proof)
}

func (s *Status) ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return Age(s.Time.Sub(t)) + " ago"
}

func dash(text string) string { return cmp.Or(text, "-") }

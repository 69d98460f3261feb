package status

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"kubecdc/change"
	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
)

// Short returns the status for a terminal: problems first, then a line for each part without problems.
func (s *Status) Short(columns int, colours *screen.Colours) (text plain.Own) {
	add := func(parts ...screen.Part) { text += screen.Line(columns, parts...) + "\n" }
	mark, state := screen.Part{Text: "✓ ", Paint: colours.Added}, "all is well"
	wrong := screen.Part{Text: "  ✕ ", Paint: colours.Alert}
	if !s.Healthy {
		mark, state = screen.Part{Text: "✕ ", Paint: colours.Alert}, fmt.Sprintf("%d wrong", len(s.Problems))
	}
	add(mark, screen.Part{Text: cmp.Or(s.Cluster, "kubecdc") + ": " + state, Paint: colours.Title},
		screen.Part{Text: "  at " + screen.Clock(s.Time, time.Now()), Paint: colours.Dim})
	for _, p := range s.Problems {
		since := ""
		if !p.Since.IsZero() {
			since = " (for " + Age(s.Time.Sub(p.Since)) + ")"
		}
		// not cut off, since users need all of it
		text += screen.Line(1<<20, wrong, screen.Part{Text: p.Component + ": " + p.Text + since}) + "\n"
		if p.Count > 1 {
			add(screen.Part{Text: "    " + p.streamNames()})
		}
		text += screen.Line(1<<20, screen.Part{Text: "    " + p.Help + ": see " + p.See, Paint: colours.Dim}) + "\n"
	}
	if n := len(s.Past); n > 0 {
		p := s.Past[0]
		add(screen.Part{Text: fmt.Sprintf("  %d before, the last: %s: %s (until %s ago)", n, p.Component, p.Text,
			Age(s.Time.Sub(p.Until))), Paint: colours.Dim})
	}
	for i := range s.Streams {
		if v := &s.Streams[i]; v.Problem != "" {
			add(wrong, screen.Part{Text: v.where()},
				screen.Part{Text: fmt.Sprintf("  %s, complete up to %s, confirmed %s", v.State, dash(string(v.Position)),
					s.ago(v.Confirmed))})
		}
	}
	for _, line := range append(append([]string{s.healthyStreams()}, s.logInShort()...), s.slotsInShort(), s.serversInShort()) {
		if line != "" {
			add(screen.Part{Text: "  " + line})
		}
	}
	return text
}

func (s *Stream) where() string {
	if s.Namespace == "" {
		return s.Resource
	}
	return s.Resource + " -n " + s.Namespace
}

// healthyStreams describes the streams without a problem.
func (s *Status) healthyStreams() string {
	well, rate := 0, 0.0
	oldest := s.Time
	for i := range s.Streams {
		v := &s.Streams[i]
		if v.Problem != "" {
			continue
		}
		if well++; v.Rate != nil {
			rate += *v.Rate
		}
		if v.Confirmed.Before(oldest) {
			oldest = v.Confirmed
		}
	}
	if well == 0 {
		return ""
	}
	return fmt.Sprintf("✓ %d streams, complete up to %s ago; changes: %s (-o wide: each)", well, Age(s.Time.Sub(oldest)),
		perSecond(rate))
}

// logInShort describes the log's size, when it is full at the pace of the last day, and the resources that take most.
func (s *Status) logInShort() (lines []string) {
	v := s.Log
	if v == nil {
		return nil
	}
	text := "log: " + used(v)
	if !v.Since.IsZero() {
		text += " since " + Age(s.Time.Sub(v.Since))
	}
	switch pace := ", " + size(v.Daily) + " a day"; {
	case v.Daily == 0:
	case v.Limit == 0:
		text += pace
	case v.Full.IsZero():
		text += pace + ", never full"
	case v.Full.After(s.Time):
		text += pace + ", full in " + Age(v.Full.Sub(s.Time))
	default:
		text += pace + ", full: the oldest changes are removed"
	}
	lines = append(lines, text)
	for _, r := range v.Largest {
		lines = append(lines, fmt.Sprintf("  about %s: %s", size(r.Bytes), r.Resource))
	}
	return lines
}

// used describes the size, and its limit if there is one.
func used(v *change.LogSize) string {
	if v.Limit == 0 {
		return size(v.Bytes)
	}
	return size(v.Bytes) + " of " + size(v.Limit)
}

func size(bytes int64) string { return humanize.IBytes(uint64(max(bytes, 0))) }

func (s *Status) slotsInShort() string {
	held, streams := 0, 0
	var owners []string
	for _, v := range s.Slots {
		streams += v.Streams
		if v.Held {
			held++
		}
		if v.Held && !slices.Contains(owners, v.Owner) {
			owners = append(owners, v.Owner)
		}
	}
	switch len(owners) {
	case 0:
		return fmt.Sprintf("no exporter runs: nobody owns any of %d slots", len(s.Slots))
	case 1:
		return fmt.Sprintf("exporter %s owns %d of %d slots", owners[0], held, len(s.Slots))
	}
	return fmt.Sprintf("%d exporters own %d of %d slots", len(owners), held, len(s.Slots))
}

func (s *Status) serversInShort() (text string) {
	for _, v := range s.Servers {
		if text != "" {
			text += ", "
		}
		state := "up for "
		if !v.Up {
			state = "DOWN for "
		}
		text += v.Name + " " + state + Age(s.Time.Sub(v.Since))
	}
	return text
}

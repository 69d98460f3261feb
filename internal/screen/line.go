package screen

import (
	"strings"
	"time"

	"github.com/fatih/color"
	"github.com/rivo/uniseg"

	"kubecdc/change"
	"kubecdc/internal/plain"
	"kubecdc/internal/suggest"
)

// Width returns how many columns a text takes.
func Width(text string) int { return uniseg.StringWidth(text) }

// Part is a part of a line. What others wrote in it is escaped when it is printed.
type Part struct {
	Text  string
	Paint *color.Color // nil: none
}

// Line joins parts to a line of at most width columns, without a line end. If the text is longer, it is cut, and ends with an
// ellipsis.
func Line(width int, parts ...Part) plain.Own {
	var b strings.Builder
	for _, p := range parts {
		text := plain.Escape(p.Text)
		used := Width(text)
		if used > 0 && width == 0 {
			break
		}
		if used > width {
			text = cut(text, width-1) + "…"
		}
		if p.Paint != nil && text != "" {
			text = p.Paint.Sprint(text)
		}
		b.WriteString(text)
		if width -= used; width < 0 {
			break
		}
	}
	return plain.Own(b.String())
}

// cut returns the beginning of a text that fits into columns.
func cut(text string, columns int) string {
	end, state, rest := 0, -1, text
	for rest != "" {
		var cluster string
		var w int
		if cluster, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state); w > columns {
			break
		}
		columns -= w
		end += len(cluster)
	}
	return text[:end]
}

// signs show what happened to an object.
var signs = map[change.Op]string{change.Create: "+", change.Update: "~", change.Delete: "-", change.Read: "·"}

// Change is a change in one line: when, what happened to which object, what of it changed, and who did it.
type Change struct {
	At                        time.Time
	Op                        change.Op
	Resource, Namespace, Name string
	What, By                  string // may be empty
	Notes                     []string
}

// Line returns the line. An object stands there as a command takes it: deploy/web -n shop. Where there is not enough room, what changed is
// shortened first.
func (c *Change) Line(width int, colours *Colours, now time.Time) plain.Own {
	parts := []Part{{Clock(c.At, now) + " ", colours.Dim}, {signs[c.Op] + " ", colours.Of(signs[c.Op][0])}, {Object(c.Resource, c.Name), colours.Title},
		{prefixed(" -n ", c.Namespace), colours.Dim}, {prefixed("  ", c.What), nil}, {prefixed("  by ", c.By), colours.Dim}}
	for _, note := range c.Notes {
		parts = append(parts, Part{"  (" + note + ")", colours.Dim})
	}
	const what = 4
	used := 0
	for _, p := range parts {
		used += Width(plain.Escape(p.Text))
	}
	if text := plain.Escape(parts[what].Text); used > width && text != "" {
		parts[what].Text = cut(text, max(Width(text)-(used-width)-1, min(Width(text), 12))) + "…"
	}
	return Line(width, parts...)
}

// prefixed returns a text behind its prefix, or "" for an empty text.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// Object names an object as commands take it.
func Object(resource, name string) string { return suggest.Short(resource) + "/" + name }

// Clock returns the local time of day, with the date if that is another day than now.
func Clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	switch {
	case t.Year() != now.Year():
		return t.Format("2006-01-02 15:04:05")
	case t.YearDay() != now.YearDay():
		return t.Format("Jan _2 15:04:05")
	}
	return t.Format(time.TimeOnly)
}

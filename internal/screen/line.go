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

// Part is a part of a line. The text is escaped when it is printed, since it may come from other people.
type Part struct {
	Text  string
	Paint *color.Color // or nil
}

// Line joins parts to a line of at most width columns, without a line end. An ellipsis replaces the text that does not fit.
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

// Wrap joins parts to lines of at most width columns. A part that does not fit begins the next line, which is indented, and
// continues there if it is longer than a line.
func Wrap(width, indent int, parts ...Part) plain.Own {
	var b strings.Builder
	column := 0
	next := func() {
		b.WriteString("\n" + strings.Repeat(" ", indent))
		column = indent
	}
	width = max(width, indent+8) // in a narrower terminal, the terminal wraps
	for _, p := range parts {
		text := plain.Escape(p.Text)
		if n := Width(text); column > indent && column+n > width {
			next()
			text = strings.TrimLeft(text, " ")
		}
		for text != "" {
			piece := cut(text, width-column)
			if piece == "" {
				next()
				continue
			}
			text, column = text[len(piece):], column+Width(piece)
			if p.Paint != nil {
				piece = p.Paint.Sprint(piece)
			}
			b.WriteString(piece)
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

// signs show the kinds of changes.
var signs = map[change.Op]string{change.Create: "+", change.Update: "~", change.Delete: "-", change.Read: "·"}

// Change is a change that is shown in one line: its time and kind, the object, the changed fields, and who made it.
type Change struct {
	Time                      time.Time
	Op                        change.Op
	Resource, Namespace, Name string
	What, Author              string // may be empty
	Remarks                   []string
}

// Lines returns the change in one line, or in as many as it takes.
func (c *Change) Lines(width int, colours *Colours, now time.Time) plain.Own {
	return Wrap(width, len(time.TimeOnly)+3, c.parts(colours, now)...)
}

// Line returns the line. It has the object as commands take it: deploy/web -n shop. If the line is too long, What is shortened
// first.
func (c *Change) Line(width int, colours *Colours, now time.Time) plain.Own {
	parts := c.parts(colours, now)
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

func (c *Change) parts(colours *Colours, now time.Time) []Part {
	parts := []Part{{Clock(c.Time, now) + " ", colours.Dim}, {signs[c.Op] + " ", colours.Sign(signs[c.Op][0])},
		{Object(c.Resource, c.Name), colours.Title},
		{prefixed(" -n ", c.Namespace), colours.Dim}, {prefixed("  ", c.What), nil}, {prefixed("  by ", c.Author), colours.Dim}}
	for _, remark := range c.Remarks {
		parts = append(parts, Part{"  (" + remark + ")", colours.Dim})
	}
	return parts
}

// prefixed returns the prefix and the text, or "" for an empty text.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// Object returns an object's name as commands take it: deploy/web.
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

package past

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
	"kubecdc/query/difference"
)

// unlimited is the width of lines outside of a terminal, and if all is to be shown.
const unlimited = 1 << 30

// differences formats lines. It shortens lines of more than width columns where nothing is lost, and then wraps them. Brackets
// mark the removed and the new words of a text, also in colours, which a copy of the text has not.
func differences(c *screen.Colours, lines []difference.Line, width int) plain.Own {
	var text strings.Builder
	for _, l := range lines {
		text.WriteString(string(shortened(c, l, width)) + "\n")
	}
	return plain.Own(text.String())
}

func shortened(c *screen.Colours, l difference.Line, width int) plain.Own {
	over := func() (n int) {
		for _, p := range partsOf(c, l) {
			n += screen.Width(plain.Escape(p.Text))
		}
		return n - width
	}
	if over() > 0 {
		l.Parts = withoutPrefix(l.Parts)
	}
	if n := over(); n > 0 {
		l.Path = withoutBeginning(l.Path, screen.Width(l.Path)-n)
	}
	return screen.Wrap(width, 6, partsOf(c, l)...)
}

func partsOf(c *screen.Colours, l difference.Line) []screen.Part {
	begin := screen.Part{Text: string(l.Sign) + " " + l.Path + ":", Paint: c.Sign(l.Sign)}
	if l.Path == "" {
		begin.Text = "    " + string(l.Sign)
	}
	parts := []screen.Part{{Text: "  "}, begin}
	for i, p := range l.Parts {
		if i == 0 {
			parts = append(parts, screen.Part{Text: " "})
		}
		parts = append(parts, screen.Part{Text: l.Marked(p), Paint: c.Sign(p.Sign)})
	}
	return parts
}

// withoutPrefix replaces what two texts have in common at the beginning: …/cart:1.0.0 → 2.0.0-rc1.
func withoutPrefix(parts []difference.Part) []difference.Part {
	if len(parts) != 3 || parts[0].Sign != '-' || parts[2].Sign != '+' {
		return parts
	}
	old, now := strings.Trim(parts[0].Text, `"`), strings.Trim(parts[2].Text, `"`)
	n := 0
	for n < min(len(old), len(now)) && old[n] == now[n] {
		n++
	}
	const bounds = "/:@,= "
	same := strings.LastIndexAny(old[:n], bounds) + 1
	named := strings.LastIndexAny(old[:max(0, same-1)], bounds)
	if named < 0 || strings.ContainsAny(parts[0].Text+parts[2].Text, `{[\`) {
		return parts
	}
	return []difference.Part{{Sign: '-', Text: "…" + old[named:]}, parts[1], {Sign: '+', Text: now[same:]}}
}

// withoutBeginning drops members from the beginning of a path. It retains the last two: …[cart].image.
func withoutBeginning(path string, width int) string {
	var begins []int
	for i, r := range path {
		if i > 0 && (r == '.' || r == '[') && !strings.Contains(path[:i], `"`) {
			begins = append(begins, i)
		}
	}
	for _, i := range begins[:max(0, len(begins)-1)] {
		if short := "…" + path[i:]; screen.Width(short) <= width || i == begins[len(begins)-2] {
			return short
		}
	}
	return path
}

// longValue is how many lines of a value are shown.
const longValue = 4

// withoutEnds cuts texts of more than a number of columns.
func withoutEnds(parts []difference.Part, columns int) []difference.Part {
	parts = slices.Clone(parts)
	for i, p := range parts {
		if n := len(p.Text); n > columns {
			end := columns
			for !utf8.RuneStart(p.Text[end]) {
				end--
			}
			parts[i].Text = p.Text[:end] + "… " + humanize.Comma(int64(n-end)) + " more bytes: -o diff shows all"
		}
	}
	return parts
}

const (
	foldAbove = 14 // lines
	foldTo    = 10
)

// below formats the lines below a change.
func (p *pastFlags) below(colours *screen.Colours, lines []difference.Line, width int) plain.Own {
	if !p.folded {
		return differences(colours, lines, width)
	}
	lines = slices.Clone(lines)
	for i := range lines {
		lines[i].Parts = withoutEnds(lines[i].Parts, longValue*width)
	}
	more := plain.Own("")
	if n := len(lines) - foldTo; len(lines) > foldAbove {
		lines, more = lines[:foldTo], plain.Own(colours.Dim.Sprintf("    … %d more lines: -o diff shows all", n))+"\n"
	}
	return differences(colours, lines, width) + more
}

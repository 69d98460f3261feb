package past

import (
	"strings"

	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
	"kubecdc/query"
)

// unlimited is the width of lines outside of a terminal, and if all is to be shown.
const unlimited = 1 << 30

// differences formats lines of at most width columns. Without colours, brackets mark the removed and the new words of a text.
func differences(c *screen.Colours, lines []query.Line, width int) plain.Own {
	var text strings.Builder
	for _, l := range lines {
		begin := screen.Part{Text: string(l.Sign) + " " + l.Path + ":", Paint: c.Sign(l.Sign)}
		if l.Path == "" {
			begin.Text = "    " + string(l.Sign)
		}
		parts := []screen.Part{{Text: "  "}, begin}
		for i, p := range l.Parts {
			if i == 0 {
				parts = append(parts, screen.Part{Text: " "})
			}
			parts = append(parts, part(c, p, l.Words))
		}
		text.WriteString(string(screen.Line(width, parts...)) + "\n")
	}
	return plain.Own(text.String())
}

func part(c *screen.Colours, p query.Part, word bool) screen.Part {
	switch paint := c.Sign(p.Sign); {
	case paint == nil:
		return screen.Part{Text: p.Text}
	case c.Enabled || !word:
		return screen.Part{Text: p.Text, Paint: paint}
	case p.Sign == '-':
		return screen.Part{Text: "[-" + p.Text + "-]"}
	}
	return screen.Part{Text: "{+" + p.Text + "+}"}
}

// inWords describes a difference in a few words: the first members, with their values if they are short.
func inWords(lines []query.Line) string {
	const most, long = 3, 30
	var words []string
	for _, l := range lines {
		if l.Path == "" {
			continue
		}
		value := ""
		for _, p := range l.Parts {
			value += p.Text
		}
		word := l.Path
		switch {
		case l.Sign == '~' && value != "" && len(value) <= long:
			word += " " + value
		case l.Sign != '~':
			word = string(l.Sign) + word
		}
		if words = append(words, word); len(words) > most {
			words[most] = "…"
			break
		}
	}
	return strings.Join(words, ", ")
}

const (
	foldAbove = 14 // lines
	foldTo    = 10
)

// below formats the lines below a change.
func (p *pastFlags) below(colours *screen.Colours, lines []query.Line) plain.Own {
	if !p.folded {
		return differences(colours, lines, unlimited)
	}
	more := plain.Own("")
	if n := len(lines) - foldTo; len(lines) > foldAbove {
		lines, more = lines[:foldTo], plain.Own(colours.Dim.Sprintf("    … %d more lines: -o diff shows all", n))+"\n"
	}
	return differences(colours, lines, p.screen.Columns()) + more
}

package past

import (
	"strings"

	"github.com/fatih/color"

	"kubecdc/internal/plain"
	"kubecdc/query"
)

// colours are those of a terminal; elsewhere they do nothing.
type colours struct {
	on                             bool
	title, added, removed, changed *color.Color
}

func newColours(on bool) *colours {
	c := &colours{on, color.New(color.Bold), color.New(color.FgGreen), color.New(color.FgRed), color.New(color.FgYellow)}
	for _, each := range []*color.Color{c.title, c.added, c.removed, c.changed} {
		if each.DisableColor(); on {
			each.EnableColor()
		}
	}
	return c
}

func (c *colours) of(sign byte) *color.Color {
	return map[byte]*color.Color{'+': c.added, '-': c.removed, '~': c.changed}[sign]
}

// lines are what differs. Without colours brackets tell which words of a text are gone, and which are new.
func (c *colours) lines(lines []query.Line) plain.Own {
	var text strings.Builder
	for _, l := range lines {
		begin := plain.Sprintf("%c %s:", l.Sign, l.Path)
		if l.Path == "" {
			begin = plain.Sprintf("    %c", l.Sign)
		}
		if paint := c.of(l.Sign); paint != nil {
			begin = plain.Own(paint.Sprint(begin))
		}
		text.WriteString("  " + string(begin))
		for i, p := range l.Parts {
			if i == 0 {
				text.WriteByte(' ')
			}
			text.WriteString(string(c.part(p, l.Words)))
		}
		text.WriteByte('\n')
	}
	return plain.Own(text.String())
}

func (c *colours) part(p query.Part, word bool) plain.Own {
	text := plain.Sprintf("%s", p.Text)
	switch paint := c.of(p.Sign); {
	case paint == nil:
		return text
	case c.on || !word:
		return plain.Own(paint.Sprint(text))
	case p.Sign == '-':
		return "[-" + text + "-]"
	}
	return "{+" + text + "+}"
}

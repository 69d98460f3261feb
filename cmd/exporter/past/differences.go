package past

import (
	"strings"

	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
	"kubecdc/query"
)

// differences makes lines of what differs. Without colours brackets tell which words of a text are gone, and which are new.
func differences(c *screen.Colours, lines []query.Line) plain.Own {
	var text strings.Builder
	for _, l := range lines {
		begin := plain.Sprintf("%c %s:", l.Sign, l.Path)
		if l.Path == "" {
			begin = plain.Sprintf("    %c", l.Sign)
		}
		if paint := c.Of(l.Sign); paint != nil {
			begin = plain.Own(paint.Sprint(begin))
		}
		text.WriteString("  " + string(begin))
		for i, p := range l.Parts {
			if i == 0 {
				text.WriteByte(' ')
			}
			text.WriteString(string(part(c, p, l.Words)))
		}
		text.WriteByte('\n')
	}
	return plain.Own(text.String())
}

func part(c *screen.Colours, p query.Part, word bool) plain.Own {
	text := plain.Sprintf("%s", p.Text)
	switch paint := c.Of(p.Sign); {
	case paint == nil:
		return text
	case c.On || !word:
		return plain.Own(paint.Sprint(text))
	case p.Sign == '-':
		return "[-" + text + "-]"
	}
	return "{+" + text + "+}"
}

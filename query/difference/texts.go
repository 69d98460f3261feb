package difference

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	longText      = 60       // characters: of a longer string, only the difference is shown
	contextLength = 20       // characters around a difference
	maxUncompared = 16 << 10 // characters of both strings: above it, they are shown only if they can be compared
)

// texts adds the difference between two strings if both have several lines, or both are long. Otherwise it returns false.
func (c *comparison) texts(path, old, now string) bool {
	switch {
	case strings.Contains(old, "\n") && strings.Contains(now, "\n"):
		c.add('~', path)
		c.textLines(strings.Split(old, "\n"), strings.Split(now, "\n"))
	case len(old) > longText && len(now) > longText:
		c.within(path, old, now)
	default:
		return false
	}
	return true
}

// textLines adds the lines that differ, each with the lines before and after it.
func (c *comparison) textLines(old, now []string) {
	unchanged := func(line string) { c.add(' ', "", Part{' ', line}) }
	shown := 0 // lines of now that were shown
	hunks, compared := c.hunks(old, now)
	for _, h := range hunks {
		if h.now.from-1 > shown {
			unchanged("…")
		}
		if h.now.from > shown {
			unchanged(now[h.now.from-1])
		}
		if compared {
			c.textHunk(old[h.old.from:h.old.to], now[h.now.from:h.now.to])
		} else {
			c.replaced("", "lines", h.old.len(), h.now.len())
		}
		if shown = h.now.to; shown < len(now) {
			unchanged(now[shown])
			shown++
		}
	}
	if shown < len(now) {
		unchanged("…")
	}
}

func (c *comparison) textHunk(old, now []string) {
	short := func(line string) bool { return len(line) <= longText }
	if len(old) == len(now) && !slices.ContainsFunc(old, short) && !slices.ContainsFunc(now, short) {
		for i := range old {
			c.within("", old[i], now[i])
		}
		return
	}
	for _, line := range old {
		c.add('-', "", Part{'-', line})
	}
	for _, line := range now {
		c.add('+', "", Part{'+', line})
	}
}

var words = regexp.MustCompile(`[\pL\pN_]+|\s+|.`)

// within adds the words of a line that differ, with a few characters around them.
func (c *comparison) within(path, old, now string) {
	a, b, shown := words.FindAllString(old, -1), words.FindAllString(now, -1), 0
	var parts []Part
	add := func(sign byte, text string) {
		if text != "" {
			parts = append(parts, Part{sign, text})
		}
	}
	hunks, compared := c.hunks(a, b)
	if !compared && len(old)+len(now) > maxUncompared {
		c.replaced(path, "characters", utf8.RuneCountInString(old), utf8.RuneCountInString(now))
		return
	}
	for _, h := range hunks {
		add(' ', shorten(strings.Join(b[shown:h.now.from], ""), shown > 0, true))
		add('-', strings.Join(a[h.old.from:h.old.to], ""))
		add('+', strings.Join(b[h.now.from:h.now.to], ""))
		shown = h.now.to
	}
	add(' ', shorten(strings.Join(b[shown:], ""), true, false))
	c.lines = append(c.lines, Line{'~', path, parts, true})
}

// shorten shortens an unchanged text. It leaves what follows a difference before it (isAfter), and what precedes the next one
// (isBefore).
func shorten(text string, isAfter, isBefore bool) string {
	letters := []rune(text)
	if n := len(letters); n > 2*contextLength+1 {
		text = "…"
		if isAfter {
			text = string(letters[:contextLength]) + text
		}
		if isBefore {
			text += string(letters[n-contextLength:])
		}
	}
	return text
}

package query

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	long   = 60       // characters of a string, of which only what differs is shown
	beside = 20       // characters of it around what differs
	longer = 16 << 10 // characters of two strings that are not shown unless they can be compared
)

// texts tells what differs within two strings, of which both have several lines, or are long. Others are told whole.
func (c *comparison) texts(path, old, now string) bool {
	switch {
	case strings.Contains(old, "\n") && strings.Contains(now, "\n"):
		c.add('~', path)
		c.textLines(strings.Split(old, "\n"), strings.Split(now, "\n"))
	case len(old) > long && len(now) > long:
		c.within(path, old, now)
	default:
		return false
	}
	return true
}

// textLines tells which lines of a text differ, each time with a line before and behind.
func (c *comparison) textLines(old, now []string) {
	stays := func(line string) { c.add(' ', "", Part{' ', line}) }
	shown := 0 // of now
	hunks, compared := c.hunks(old, now)
	for _, h := range hunks {
		if h.now.from-1 > shown {
			stays("…")
		}
		if h.now.from > shown {
			stays(now[h.now.from-1])
		}
		if compared {
			c.textHunk(old[h.old.from:h.old.to], now[h.now.from:h.now.to])
		} else {
			c.replaced("", "lines", h.old.len(), h.now.len())
		}
		if shown = h.now.to; shown < len(now) {
			stays(now[shown])
			shown++
		}
	}
	if shown < len(now) {
		stays("…")
	}
}

func (c *comparison) textHunk(old, now []string) {
	short := func(line string) bool { return len(line) <= long }
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

// within tells which words of a line differ, with a few characters around them.
func (c *comparison) within(path, old, now string) {
	a, b, shown := words.FindAllString(old, -1), words.FindAllString(now, -1), 0
	var parts []Part
	add := func(sign byte, text string) {
		if text != "" {
			parts = append(parts, Part{sign, text})
		}
	}
	hunks, compared := c.hunks(a, b)
	if !compared && len(old)+len(now) > longer {
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

// shorten reduces what stays to what is behind one difference and before the next one.
func shorten(text string, behind, before bool) string {
	letters := []rune(text)
	if n := len(letters); n > 2*beside+1 {
		text = "…"
		if behind {
			text = string(letters[:beside]) + text
		}
		if before {
			text += string(letters[n-beside:])
		}
	}
	return text
}

package query

import (
	"regexp"
	"strings"
)

const (
	long   = 60 // characters of a string, of which only what differs is shown
	beside = 20 // characters of it around what differs
)

// texts tells what differs within two strings, of which one has several lines, or is long. Others are told whole.
func (c *comparison) texts(path, old, now string) bool {
	switch {
	case strings.Contains(old, "\n") && strings.Contains(now, "\n"):
		c.add('~', path)
		c.textLines(strings.Split(old, "\n"), strings.Split(now, "\n"))
	case len(old) > long && len(now) > long:
		c.lines = append(c.lines, Line{'~', path, within(old, now), true})
	default:
		return false
	}
	return true
}

// textLines tells which lines of a text differ, each time with a line before and behind.
func (c *comparison) textLines(old, now []string) {
	shown := 0 // of now
	for _, h := range hunks(old, now) {
		if h.now.from-1 > shown {
			c.add(' ', "", Part{' ', "…"})
		}
		if h.now.from > shown {
			c.add(' ', "", Part{' ', now[h.now.from-1]})
		}
		c.textHunk(old[h.old.from:h.old.to], now[h.now.from:h.now.to])
		if shown = h.now.to; shown < len(now) {
			c.add(' ', "", Part{' ', now[shown]})
			shown++
		}
	}
	if shown < len(now) {
		c.add(' ', "", Part{' ', "…"})
	}
}

func (c *comparison) textHunk(old, now []string) {
	for i, line := range old {
		if len(old) == len(now) && len(line) > long && len(now[i]) > long {
			c.lines = append(c.lines, Line{'~', "", within(line, now[i]), true})
			continue
		}
		c.add('-', "", Part{'-', line})
		if len(old) == len(now) {
			c.add('+', "", Part{'+', now[i]})
		}
	}
	for _, line := range now {
		if len(old) != len(now) {
			c.add('+', "", Part{'+', line})
		}
	}
}

var words = regexp.MustCompile(`[\pL\pN_]+|\s+|.`)

// within tells which words of a line differ, with a few characters around them.
func within(old, now string) (parts []Part) {
	a, b, shown := words.FindAllString(old, -1), words.FindAllString(now, -1), 0
	for _, h := range hunks(a, b) {
		parts = append(parts, Part{' ', shorten(strings.Join(b[shown:h.now.from], ""), shown > 0, true)})
		for _, p := range []Part{{'-', strings.Join(a[h.old.from:h.old.to], "")}, {'+', strings.Join(b[h.now.from:h.now.to], "")}} {
			if p.Text != "" {
				parts = append(parts, p)
			}
		}
		shown = h.now.to
	}
	return append(parts, Part{' ', shorten(strings.Join(b[shown:], ""), true, false)})
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

// stretch is a part of a sequence.
type stretch struct{ from, to int }

func (p stretch) len() int { return p.to - p.from }

// hunk is what differs between two sequences at one place.
type hunk struct{ old, now stretch }

// most is how many pairs of items are compared at most; longer parts that differ count as one.
const most = 4 << 20

// hunks finds what differs by a longest common subsequence of what is between the equal starts and ends.
func hunks(old, now []string) (all []hunk) {
	start, end := 0, 0
	for start < min(len(old), len(now)) && old[start] == now[start] {
		start++
	}
	for end < min(len(old), len(now))-start && old[len(old)-1-end] == now[len(now)-1-end] {
		end++
	}
	a, b := old[start:len(old)-end], now[start:len(now)-end]
	common := commonOf(a, b)
	for i, j := 0, 0; i < len(a) || j < len(b); {
		if common != nil && i < len(a) && j < len(b) && a[i] == b[j] {
			i, j = i+1, j+1
			continue
		}
		h := hunk{stretch{start + i, start + i}, stretch{start + j, start + j}}
		for i < len(a) || j < len(b) {
			if common != nil && i < len(a) && j < len(b) && a[i] == b[j] {
				break
			}
			if j == len(b) || i < len(a) && (common == nil || common[i+1][j] >= common[i][j+1]) {
				i++
			} else {
				j++
			}
		}
		h.old.to, h.now.to = start+i, start+j
		all = append(all, h)
	}
	return all
}

// commonOf counts the longest common subsequence of each pair of rests; nil: there are too many.
func commonOf(a, b []string) [][]int32 {
	if len(a)*len(b) > most {
		return nil
	}
	common := make([][]int32, len(a)+1)
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	return common
}

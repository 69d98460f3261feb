package query

import (
	"regexp"
	"slices"
	"strings"
)

const (
	long   = 60 // characters of a string, of which only what differs is shown
	beside = 20 // characters of it around what differs
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
	for _, h := range hunks(old, now) {
		if h.now.from-1 > shown {
			stays("…")
		}
		if h.now.from > shown {
			stays(now[h.now.from-1])
		}
		c.textHunk(old[h.old.from:h.old.to], now[h.now.from:h.now.to])
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
	for _, h := range hunks(a, b) {
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

// stretch is a part of a sequence.
type stretch struct{ from, to int }

func (s stretch) len() int { return s.to - s.from }

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
	common, open := commonOf(a, b), false
	for i, j := 0, 0; i < len(a) || j < len(b); {
		if i < len(a) && j < len(b) && a[i] == b[j] && common != nil {
			i, j, open = i+1, j+1, false
			continue
		}
		if !open {
			all, open = append(all, hunk{stretch{from: start + i}, stretch{from: start + j}}), true
		}
		if j == len(b) || i < len(a) && (common == nil || common[i+1][j] >= common[i][j+1]) {
			i++
		} else {
			j++
		}
		all[len(all)-1].old.to, all[len(all)-1].now.to = start+i, start+j
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
			if common[i][j] = max(common[i+1][j], common[i][j+1]); a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	return common
}

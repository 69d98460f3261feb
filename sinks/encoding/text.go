package encoding

import (
	"slices"
	"unicode/utf8"

	"kubecdc/change"
)

// needs is how many more bytes each byte of JSON needs within a JSON string: 1 for a backslash before it, 2 for an escape.
var needs = func() (needs [256]byte) {
	for c := range byte(' ') {
		needs[c] = 2
	}
	needs['"'], needs['\\'] = 1, 1
	return needs
}()

// appendText appends JSON as a JSON string. It uses no branch for quotes: a quote comes every few bytes, and the branch would be
// mispredicted.
func appendText(dst, json []byte) []byte {
	out := slices.Grow(dst, 2*len(json)+2)
	out = out[:cap(out)]
	i, own := len(dst)+1, byte(0)
	out[i-1] = '"'
	for _, c := range json {
		n := needs[c]
		out[i] = '\\'
		i += int(n & 1)
		out[i] = c
		i++
		own |= n
	}
	if own&2 != 0 || !utf8.Valid(json) {
		return change.AppendString(dst, json)
	}
	out[i] = '"'
	return out[:i+1]
}

package rawjson

import "bytes"

// Passer finds the end of an object, an array or a string that comes in parts, and checks nothing else. It can't find the end of
// a number, since only the byte after a number ends it.
type Passer struct {
	depth             int
	inString, escaped bool
}

// Pass returns how many bytes of the part belong to the value, and whether it ends there.
func (p *Passer) Pass(part []byte) (n int, done bool) {
	for n < len(part) {
		c := part[n]
		switch {
		case p.escaped:
			p.escaped = false
		case p.inString && c == '\\':
			p.escaped = true
		case c == '"':
			p.inString = !p.inString
		case p.inString:
			stop := bytes.IndexAny(part[n:], `"\`)
			if stop < 0 {
				return len(part), false
			}
			n += stop
			continue
		default:
			p.depth += int(nests[c])
		}
		n++
		if p.depth == 0 && !p.inString && (c == '"' || c == '}' || c == ']') {
			return n, true
		}
	}
	return n, false
}

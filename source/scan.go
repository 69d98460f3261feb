package source

import (
	"bytes"
	"encoding/json"
	"errors"
)

// This file finds things in raw JSON without decoding it: the hot path reads the server's bytes once and passes
// them on. It checks structure (strings, brackets, separators), not the spelling of numbers and literals.
// Its oracle in the fuzz test is encoding/json.

var errMalformed = errors.New("malformed JSON")

// fields walks the members of one JSON object.
type fields struct {
	b   []byte
	i   int
	err error
}

// fieldsOf starts at the object that b holds.
func fieldsOf(b []byte) fields {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return fields{err: errMalformed}
	}
	return fields{b: b, i: i + 1}
}

// next gives the next member; key is raw, without its quotes. ok is false at the end and on an error (f.err).
func (f *fields) next() (key, value []byte, ok bool) {
	if f.err != nil {
		return nil, nil, false
	}
	i := skipSpace(f.b, f.i)
	if i < len(f.b) && f.b[i] == ',' {
		i = skipSpace(f.b, i+1)
	}
	if i >= len(f.b) {
		return f.fail()
	}
	if f.b[i] == '}' {
		f.i = i
		return nil, nil, false
	}
	keyEnd := skipString(f.b, i)
	if keyEnd < 0 {
		return f.fail()
	}
	colon := skipSpace(f.b, keyEnd)
	if colon >= len(f.b) || f.b[colon] != ':' {
		return f.fail()
	}
	start := skipSpace(f.b, colon+1)
	end := skipValue(f.b, start)
	if end < 0 {
		return f.fail()
	}
	f.i = end
	return f.b[i+1 : keyEnd-1], f.b[start:end], true
}

func (f *fields) fail() (key, value []byte, ok bool) {
	f.err = errMalformed
	return nil, nil, false
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index after the string that starts at i, or -1.
func skipString(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	for i++; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		end := i + n
		back := end
		for back > i && b[back-1] == '\\' {
			back--
		}
		i = end + 1
		if (end-back)%2 == 0 {
			return i
		}
	}
}

// skipValue returns the index after the JSON value that starts at i, or -1.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	start := i
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

// skipNested returns the index after the object or array that starts at i: brackets are counted, strings jumped.
func skipNested(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			if i = skipString(b, i); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

// text is the Go string of a raw JSON string value; ok is false for any other value.
func text(raw []byte) (s string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), true
	}
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

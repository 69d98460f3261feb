package change

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// plain has the ASCII bytes that need no escape in a JSON string.
var plain = func() (plain [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		plain[c] = c != '"' && c != '\\'
	}
	return plain
}()

// AppendString appends s as a JSON string. What is not UTF-8 becomes U+FFFD, since JSON can't represent it.
func AppendString[T string | []byte](dst []byte, s T) []byte {
	for i := 0; i < len(s); i++ {
		if !plain[s[i]] {
			return appendEscaped(dst, string(s))
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// appendEscaped appends a string that may need escapes.
func appendEscaped(dst []byte, s string) []byte {
	b := bytes.NewBuffer(dst)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always can be
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

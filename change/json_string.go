package change

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// plain has the ASCII bytes that need no escape in a JSON string.
var plain = func() (plain [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		plain[c] = c != '"' && c != '\\'
	}
	return plain
}()

// AppendString appends s as a JSON string. What is not UTF-8 becomes U+FFFD, since JSON can't represent it.
func AppendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); i++ {
		if !plain[s[i]] {
			dst = appendEscapedString(append(dst, s[:i]...), []byte(s[i:]))
			return append(dst, '"')
		}
	}
	dst = append(dst, s...)
	return append(dst, '"')
}

// appendEscapedString appends the contents of a string that needs escapes.
func appendEscapedString(dst, s []byte) []byte {
	start := 0
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if !plain[c] {
				dst = append(dst, s[start:i]...)
				dst = appendEscaped(dst, c)
				start = i + 1
			}
			i++
			continue
		}
		r, n := utf8.DecodeRune(s[i:])
		if r == utf8.RuneError && n == 1 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\ufffd`...)
			start = i + n
		}
		i += n
	}
	return append(dst, s[start:]...)
}

func appendEscaped(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\t':
		return append(dst, '\\', 't')
	case '\r':
		return append(dst, '\\', 'r')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

package pgdb

import (
	"strings"
	"unicode/utf8"
)

// Postgres' type text holds every character but NUL, which names of objects and of their members may have. So what comes from
// objects is stored with U+0001 U+0001 for a NUL, and U+0001 U+0002 for a U+0001. Escaped texts have the bytewise order of the
// original texts. All other texts are stored unchanged.
var (
	escaper   = strings.NewReplacer("\x00", "\x01\x01", "\x01", "\x01\x02")
	unescaper = strings.NewReplacer("\x01\x01", "\x00", "\x01\x02", "\x01")
)

// Escape returns a text as it is stored, for the parameter of a statement. Columns of Rows are escaped by themselves. Each byte
// that is not UTF-8 becomes U+FFFD.
func Escape[T ~string](text T) string {
	if s := string(text); strings.IndexByte(s, 0) < 0 && strings.IndexByte(s, 1) < 0 && utf8.ValidString(s) {
		return s
	}
	return escaper.Replace(string([]rune(string(text))))
}

func EscapeAll(texts []string) []string {
	stored := make([]string, len(texts))
	for i, text := range texts {
		stored[i] = Escape(text)
	}
	return stored
}

func Unescape(stored string) string {
	if strings.IndexByte(stored, 1) < 0 {
		return stored
	}
	return unescaper.Replace(stored)
}

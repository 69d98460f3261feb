// Package plain prints what others have written: names and contents of objects, messages of servers. A user who may create an
// object can put characters there that a terminal obeys (escape sequences: they set its title, and erase lines). Other characters
// imitate another line, or change the order in which text is read. All that a command or the log prints for people passes through
// this package, which writes such characters as escapes. It knows nothing of who prints.
package plain

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Own is text of the program itself, with line ends and colours that are meant. Text of other origin within it was escaped when
// the Own was made.
type Own string

// Escape returns the text on one line, with an escape for each character that is not printed as itself. These are control
// characters, line ends, tabs, and characters that only steer what is shown, such as the direction of writing.
func Escape(text string) string { return escape(text, "") }

// Lines is Escape, but leaves line ends and tabs as they are. Its text is the program's own, with words of other people in it.
func Lines(text string) string { return escape(text, "\n\t") }

func escape(text, keep string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) && !strings.ContainsRune(keep, r) || r == utf8.RuneError }
	if strings.IndexFunc(text, odd) < 0 {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch _, size := utf8.DecodeRuneInString(text[i:]); {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == utf8.RuneError || !odd(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		default:
			b.Write(appendUnicode(nil, r))
		}
	}
	return b.String()
}

// appendUnicode appends a character as JSON escapes it.
func appendUnicode(dst []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		return fmt.Appendf(dst, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(dst, `\u%04x`, r)
}

// JSON returns equivalent JSON. It escapes those characters in strings that a terminal does not print as themselves.
func JSON(text []byte) []byte {
	odd := func(r rune) bool { return r == 0x7f || r > 0x7f && !unicode.IsPrint(r) } // JSON escapes those below a space itself
	if bytes.IndexFunc(text, odd) < 0 {
		return text
	}
	out := make([]byte, 0, len(text)+len(text)/8)
	for _, r := range string(text) {
		if odd(r) {
			out = appendUnicode(out, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// JSONWriter returns a writer that passes each write through JSON. A write must have complete characters.
func JSONWriter(w io.Writer) io.Writer { return jsonWriter{w} }

type jsonWriter struct{ w io.Writer }

func (j jsonWriter) Write(text []byte) (int, error) {
	if _, err := j.w.Write(JSON(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Fprintf is fmt.Fprintf with escaped arguments. It escapes no argument that is Own or a number.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	return fmt.Fprintf(w, format, escaped(args)...)
}

// Fprintln is fmt.Fprintln with escaped arguments, except arguments that are Own.
func Fprintln(w io.Writer, args ...any) (int, error) { return fmt.Fprintln(w, escaped(args)...) }

// Appendf is fmt.Appendf with escaped arguments, except arguments that are Own.
func Appendf(dst []byte, format string, args ...any) []byte {
	return fmt.Appendf(dst, format, escaped(args)...)
}

// Sprintf is fmt.Sprintf with escaped arguments, except arguments that are Own.
func Sprintf(format string, args ...any) Own { return Own(Appendf(nil, format, args...)) }

func escaped(args []any) []any {
	all := make([]any, len(args))
	for i, arg := range args {
		switch arg.(type) {
		case Own, bool, int, int32, int64, uint64, float64:
			all[i] = arg
		default:
			all[i] = formatter{arg}
		}
	}
	return all
}

// formatter formats a value by its verb, and escapes the result.
type formatter struct{ value any }

func (f formatter) Format(s fmt.State, verb rune) {
	_, _ = io.WriteString(s, Escape(fmt.Sprintf(fmt.FormatString(s, verb), f.value)))
}

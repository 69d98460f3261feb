// Package hostile holds names and contents that somebody who may create an object can choose, and that programs stumble over.
// It is for tests: one object must never stop another. It is one corpus for all that an object passes through, so whoever finds
// another such name or content adds it here. It knows neither the API server nor the log.
package hostile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Case is a name or a content, and what is odd about it.
type Case struct{ What, Text string }

// Name is one that kube-apiserver accepts for Roles. They may hold anything but "/" and "%", and be of any length.
type Name = Case

// LongestName is how many bytes a name may have that the log takes. An object with a longer name is a dead letter.
const LongestName = 1024

// Names returns names that the log takes, in bytewise order.
func Names() []Name {
	names := []Name{
		{"a NUL alone", "\x00"},
		{"U+0001", "\x01"},
		{"two U+0001, as an escape may be", "\x01\x01"},
		{"U+0001 and U+0002, as an escape may be", "\x01\x02"},
		{"DEL, C1 and a byte order mark", "\x7f\u0080\u009b31m\ufeff"},
		{"NULs only, as many as a name may have", "a" + strings.Repeat("\x00", LongestName-1)},
		{"a NUL between", "a\x00b"},
		{"ESC: sets the title and erases the line", "a\x1b]0;owned\x07\x1b[2K\r"},
		{"newlines: a false line", "a\r\n12:00:00 deleted namespaces kube-system"},
		{"spaces and tabs", "a \t b"},
		{"quotes", `a"b'c` + "`d"},
		{"a dollar and braces", "a${HOME}$1{{.}}"},
		{"commas and equals signs", "a,b=c,metadata.name!=a"},
		{"a trailing comma", "a,"},
		{"separators of keys", "a:b.c;d|e#f?g&h"},
		{"markup", "a<img src=x onerror=alert(1)>&amp;"},
		{"backslashes", `a\b\\u0000\`},
		{"an escape of JSON in letters", `a\u0000`},
		{"as many bytes as a name may have", "a" + strings.Repeat("x7Q", (LongestName-1)/3)},
		{"characters of two to four bytes", "a\u00e9\u65e5\U0001f600"},
		{"right-to-left override and isolates", "a\u202egpj.exe\u2066\u2069\u200f"},
		{"line and paragraph separators", "a\u2028b\u2029"},
		{"what stands for a lone surrogate", "a\ufffd"},
		{"a non-character", "a\uffff"},
	}
	slices.SortFunc(names, func(a, b Name) int { return strings.Compare(a.Text, b.Text) })
	return names
}

// TooLong returns names that no log takes.
func TooLong() []Name {
	return []Name{
		{"4,000 bytes", strings.Repeat("0123456789", 400)},
		{"70,000 bytes", strings.Repeat("n", 70_000)},
	}
}

// depth is near the 10,000 of encoding/json, of which the object and the envelope around it take some.
const depth = 9900

// Contents returns JSON objects, such as a custom resource may have as its spec.
func Contents() []Case {
	return []Case{
		{"NUL in a value", `{"text":"a\u0000b","list":["\u0000"]}`},
		{"NUL in a member's name", `{"a\u0000b":1}`},
		{"NUL in letters", `{"text":"\\u0000 \\\\u0000 \\\u0000"}`},
		{"ESC, DEL and C1", `{"text":"\u001b]0;owned\u0007\u001b[2K\u007f\u009b31m","a\u001b[2K\u009b":1}`},
		{"newlines", `{"text":"a\r\n12:00:00 deleted namespaces kube-system","a\r\n12:00:00 deleted":1}`},
		{"quotes", `{"text":"'; drop table changes; -- \" ` + "`" + `","a'b\"c` + "`" + `d":1}`},
		{"lone surrogates", `{"text":"\ud800 \udc00 \ud83d\ude00 \ud83d","a\udc00\ud800":1,"\uDBFF":"\uDBFF\uDBFF\uDC00"}`},
		{"commas, equals signs and dots", `{"a,b=c.d]":"e,f=g","],":{"x],":1},".":{".":2}}`},
		{"backslashes", `{"text":"\\ \\\\ \\n \\x00","a\\b\\":1}`},
		{"arrays in arrays", `{"deep":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`},
		{"objects in objects", strings.Repeat(`{"d":`, depth) + "1" + strings.Repeat("}", depth)},
		{"numbers of 400 digits", `{"integer":` + strings.Repeat("9", 400) + `,"fraction":-0.` + strings.Repeat("7", 400) + `,"zero":-0}`},
		{"numbers beyond a float", `{"large":1e400,"small":-1e-400,"most":9223372036854775808,"exponent":1E+5}`},
		{"names that differ by case", `{"key":1,"Key":2,"KEY":3,"k\u0045y":4}`},
		{"line and paragraph separators", "{\"text\":\"a\u2028b\u2029c\\u2028\",\"a\u2028\":1}"},
		{"right-to-left marks", "{\"text\":\"\u202egpj.exe\u2066\u2069\u200f\",\"\u202ea\":1}"},
		{"empty names", `{"":{"":[{}]},"a":{"":1}}`},
		{"members twice", `{"a":1,"a":{"b":2},"b":1,"b":null}`},
		{"types that change", `{"a":[1,"2",null,{"b":[[]]},3.5,true]}`},
		{"a name of 60,000 bytes", `{"` + strings.Repeat("n", 60_000) + `":1}`},
		{"bytes that are not UTF-8", "{\"text\":\"a\xff\xc3(\",\"a\xfe\":1}"},
		{"markup", `{"text":"</script><script>alert(1)</script>&amp;<!--","<b>":1}`},
		{"what programs take for their own", `{"__proto__":{"constructor":1},"$ref":"#/","_extra":"{","@type":1,"%s%n%d":"%s%n"}`},
	}
}

// Object returns an object as the API server sends it, with the content as its spec.
func Object(apiVersion, kind, namespace, name, uid, version, content string) []byte {
	b := fmt.Appendf(nil, `{"apiVersion":%s,"kind":%s,"metadata":{"name":%s,`, quote(apiVersion), quote(kind), quote(name))
	if namespace != "" {
		b = fmt.Appendf(b, `"namespace":%s,`, quote(namespace))
	}
	return fmt.Appendf(b, `"uid":%s,"resourceVersion":%s},"spec":%s}`, quote(uid), quote(version), content)
}

// quote quotes a text for JSON, with an escape for each character that is not of ASCII or that a terminal obeys.
func quote(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r < ' ' || r >= 0x7f && r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}

// UID returns the n-th uid.
func UID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// Version returns the n-th resourceVersion.
func Version(n int) string { return strconv.Itoa(1000 + n) }

package rawjson

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The scanner finds the same members, with the same values, as encoding/json in valid JSON, and it accepts the same texts.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `{"a":"\\","b":"\"","c":"\u00e9"}`, `{"a" :1 , "b":[{"c":"]"}]}`, "\xff", `{"a":}`, `{"a":{"b":{}},"c":[[],{}]} `,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		members := map[string][]byte{}
		it := Scanner{b: b}
		for key, more := it.First(); more; key, more = it.Next() {
			members[Name(key)] = it.Skip()
		}
		var want map[string]json.RawMessage
		if !utf8.Valid(b) || json.Unmarshal(b, &want) != nil || want == nil {
			return // malformed text must only not panic here: another test compares whether it is accepted
		}
		if !it.AtEnd() || len(members) != len(want) {
			t.Fatalf("%q: found %d members, well-formed: %t; want %d", b, len(members), it.OK(), len(want))
		}
		for name, value := range want {
			if !bytes.Equal(members[name], value) {
				t.Fatalf("%q: %q is %q, want %q", b, name, members[name], value)
			}
		}
	})
}

// The scanner finds the same elements as encoding/json in a valid JSON array, and it accepts the same texts.
func FuzzElements(f *testing.F) {
	for _, s := range []string{`[]`, ` [1 ,{"a":[2]},[ ] , "x"] `, `[1,]`, `[,1]`, `[1 2]`, `[1`, `[`, `{}`, `]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var elements [][]byte
		it := New(b)
		for more := it.FirstElement(); more; more = it.NextElement() {
			elements = append(elements, it.Skip())
		}
		var want []json.RawMessage
		valid := json.Unmarshal(b, &want) == nil && want != nil
		if it.AtEnd() != valid {
			t.Fatalf("%q: accepted: %t", b, it.AtEnd())
		}
		if valid && !slices.EqualFunc(elements, want, func(a []byte, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Fatalf("%q: %q, want %q", b, elements, want)
		}
	})
}

// Deep nesting ends where it ends for encoding/json.
func TestDepth(t *testing.T) {
	for _, depth := range []int{9998, 9999, 10000, 10001} {
		raw := []byte(`{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}")
		s := New(raw)
		s.Skip()
		if s.AtEnd() != json.Valid(raw) {
			t.Errorf("depth %d: accepted: %t", depth, s.AtEnd())
		}
	}
}

package apiclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

var seeds = []string{
	`{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"12"},"spec":{}}}`,
	`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}`,
	`{"type":"ERROR","object":{"code":410}}`, `{}`, `[]`, `{"a":"\\","b":"\"","c":"\u00e9"}`, `{"a" :1 , "b":[{"c":"]"}]}`, "\xff", `{"a":}`,
	`{"kind":"List","metadata":{"resourceVersion":"5","continue":"x","remainingItemCount":3},"items":[{"metadata":{"name":"n"}},{}]}`,
}

// What passes as an event's object can be spliced into a record, and its identity is what encoding/json reads.
func FuzzParseEvent(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e := parseEvent(line)
		if e.Err != nil {
			return
		}
		_ = e.Status()
		_, _ = e.Bookmark()
		o := e.Object
		if o.Check() != nil {
			return
		}
		if !json.Valid(o.Raw) {
			t.Fatalf("%q is taken for JSON", o.Raw)
		}
		if strings.Count(string(o.Raw), `"metadata"`) != 1 || strings.ContainsRune(string(o.Raw), '\\') {
			return // names given twice, or escaped: servers write neither
		}
		var want struct{ Metadata map[string]any }
		if err := json.Unmarshal(o.Raw, &want); err != nil {
			t.Fatalf("%q: %v", o.Raw, err)
		}
		for name, got := range map[string]string{"name": o.Name, "uid": o.UID, "resourceVersion": string(o.Version)} {
			if strings.Count(string(o.Raw), `"`+name+`"`) == 1 && strings.ToValidUTF8(got, "\ufffd") != want.Metadata[name] {
				t.Fatalf("%q: %s is %q, want %q", o.Raw, name, got, want.Metadata[name])
			}
		}
	})
}

// A page of anything gives items that are JSON, or an error; never a panic.
func FuzzReadPage(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		p, err := readPage(bytes.NewReader(b), func(_ *Page, o *Object, unreadable error) error {
			n++
			if !json.Valid(o.Raw) {
				t.Fatalf("%q is no JSON", o.Raw)
			}
			want, err := ParseObject(o.Raw)
			if want.Raw = o.Raw; !reflect.DeepEqual(want, *o) || fmt.Sprint(err) != fmt.Sprint(unreadable) {
				t.Fatalf("%q is read as %+v, %v, want %+v, %v", o.Raw, *o, unreadable, want, err)
			}
			return nil
		})
		if err != nil {
			return
		}
		var want struct {
			Metadata struct{ ResourceVersion string }
			Items    []json.RawMessage
		}
		if bytes.Count(b, []byte(`"items"`)) > 1 || bytes.Count(b, []byte(`"metadata"`)) > 1 || json.Unmarshal(b, &want) != nil {
			return
		}
		if bytes.Contains(b, []byte(`"items"`)) && !bytes.ContainsRune(b, '\\') && n != len(want.Items) || p.Version == "" {
			t.Fatalf("%q: %d items at %q, want %d", b, n, p.Version, len(want.Items))
		}
	})
}

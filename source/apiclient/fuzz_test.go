package apiclient

import (
	"encoding/json"
	"strings"
	"testing"
)

var seeds = []string{
	`{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"12"},"spec":{}}}`,
	`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}`,
	`{"type":"ERROR","object":{"code":410}}`, `{}`, `[]`, `{"a":"\\","b":"\"","c":"\u00e9"}`, `{"a" :1 , "b":[{"c":"]"}]}`, "\xff", `{"a":}`,
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
		_, _, _ = e.Bookmark()
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

package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"kubecdc/change"
	"kubecdc/query"
	"kubecdc/sinks"
)

// A history in YAML has the same documents as in JSON.
func TestAHistoryInYAMLIsTheOneInJSON(t *testing.T) {
	stream := change.NewStream(change.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}, "", "", "")
	printed := func(format, separator string) []string {
		var out bytes.Buffer
		p := &changes{history: true, teller: query.Teller{Remember: true}, pastFlags: pastFlags{output: output{format: format}}}
		for i, body := range []string{`{"data":{"a":"1"}}`, `{"data":{"a":"yes","b":"2026-11-22"}}`} {
			l := &sinks.Logged{Logged: time.Unix(100, 0), Change: change.Change{Stream: stream, Op: change.Create, Namespace: "default", Name: "app",
				UID: "u", ResourceVersion: change.VersionOf(uint64(10 + i)), Time: time.Unix(99, 0), After: []byte(body)}}
			if i > 0 {
				l.Op, l.Inferred, l.Gap = change.Update, true, "configmaps:10"
			}
			text, err := p.text(l, nil)
			if err != nil {
				t.Fatal(err)
			}
			out.WriteString(string(text))
		}
		return strings.Split(out.String(), separator)
	}
	lines, documents := printed("json", "\n"), printed("yaml", "---\n")[1:]
	if len(documents) != 2 {
		t.Fatalf("%d documents", len(documents))
	}
	for i, document := range documents {
		var want, got map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &want); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(document), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v\n%s\nwant %s", err, document, lines[i])
		}
	}
}

package redact

import (
	"strings"
	"testing"
)

func TestWhatCountsInAComparison(t *testing.T) {
	var paths []Path
	for _, text := range []string{"status.conditions.*.lastHeartbeatTime", "status.images", "metadata.annotations.*", "spec.taints.*"} {
		p, err := ParsePath(text)
		must(t, err)
		paths = append(paths, p)
	}
	mask := NewMask(paths)
	const base = `{"metadata":{"name":"n","generation":1,"resourceVersion":"1","annotations":{"a":"1"},"managedFields":[1]},"spec":{"taints":["a"]},"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":"1"}],"images":[1]}}`
	for _, tc := range []struct {
		old, new string
		equal    bool
	}{
		{"", "", true},
		{`"resourceVersion":"1"`, `"resourceVersion":"2"`, true},
		{`"generation":1,`, ``, true},
		{`[1]},"spec"`, `[2]},"spec"`, true},
		{`"lastHeartbeatTime":"1"`, `"lastHeartbeatTime":"2"`, true},
		{`,"lastHeartbeatTime":"1"`, ``, true},
		{`,"images":[1]`, ``, true},
		{`{"a":"1"}`, `{"b":"2","c":"3"}`, true},
		{`["a"]`, `["b"]`, true},
		{`["a"]`, `["a","b"]`, false},
		{`"type":"Ready"`, `"type":"Other"`, false},
		{`"name":"n"`, `"name":"m"`, false},
		{`"status":{`, `"status":{"phase":"x",`, false},
		{`"name":"n","generation":1`, `"generation":1,"name":"n"`, true}, // as a log in Avro may have it
		{`{"metadata"`, `["metadata"`, false},
	} {
		if got := mask.Equal([]byte(base), []byte(strings.Replace(base, tc.old, tc.new, 1))); got != tc.equal {
			t.Errorf("with %s for %s the objects are equal: %v, want %v", tc.new, tc.old, got, tc.equal)
		}
	}
}

func TestManagedFieldsAreLeftOut(t *testing.T) {
	const object = `{"metadata":{"name":"n","managedFields":[{"manager":"x"}],"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}},"data":{"managedFields":1}}`
	const want = `{"metadata":{"name":"n","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}},"data":{"managedFields":1}}`
	r := New(Rules{Mode: Plain, NoManagedFields: true})
	if got := apply(t, r, "n", object); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if r.Hides() || r.String() != "plain without managedFields" {
		t.Errorf("%q hides: %v", r, r.Hides())
	}
	both := New(Rules{Mode: Metadata, NoManagedFields: true})
	if got := apply(t, both, "n", object); got != `{"metadata":{"name":"n","annotations":{}}}` || !both.Hides() {
		t.Errorf("with metadata alone: %s", got)
	}
}

package verify

import (
	"context"
	"testing"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/redact"
	"kubecdc/sinks"
)

// hiding are settings that redact one more field than those by which the log was written.
type hiding struct{ path string }

func (hiding) MetadataOnly(change.Resource) bool             { return false }
func (hiding) Mask(change.Resource) *redact.Mask             { return nil }
func (hiding) UseKey(context.Context, checkpoint.Pins) error { return nil }
func (h hiding) Redactor(change.Resource) *redact.Redactor {
	path, err := redact.ParsePath(h.path)
	if err != nil {
		panic(err)
	}
	return redact.New(redact.Rules{Cluster: "c", Resource: "pods", Mode: redact.Plain, Fields: []redact.Path{path}})
}

// An object that was logged before a field was redacted equals the API server's if only that field, and what goes with it,
// differs.
func TestBodiesAreComparedByThePresentRules(t *testing.T) {
	s := change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")
	const before = `{"apiVersion":"v1","metadata":{"name":"a","managedFields":[{"manager":"m","fieldsV1":{"f:spec":{}}}]},"spec":{"password":"x","image":"i"}}`
	const other = `{"apiVersion":"v1","metadata":{"name":"a","managedFields":[{"manager":"m"}]},"spec":{"password":"x","image":"j"}}`
	rules := hiding{"spec.password"}
	hash := NewHash()
	hash.rules = rules
	redacted := func(body string) []byte {
		b, err := rules.Redactor(s.Resource).Apply("a", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	live := hash.Object("u", "5", redacted(before), &s.Resource)
	for body, equal := range map[string]bool{before: true, string(redacted(before)): true, other: false} {
		l := &sinks.Logged{Change: change.Change{Stream: s, Name: "a", UID: "u", ResourceVersion: "5", After: []byte(body)}}
		if held := objectOf(l, s, hash); held.sum == 0 || held.equal(&live) != equal {
			t.Errorf("%s equals the API server's: %v, want %v", body, !equal, equal)
		}
	}
}

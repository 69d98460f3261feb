package apiclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// obvious is the slow way to read an object: encoding/json, member by member, so that names are compared exactly.
func obvious(t *testing.T, raw []byte) (o Object, valid bool) {
	t.Helper()
	if !json.Valid(raw) {
		return o, false
	}
	members, valid := membersOf(raw)
	_, o.typed = members["kind"]
	metadata, _ := membersOf(members["metadata"])
	version := ""
	for name, target := range map[string]*string{"name": &o.Name, "namespace": &o.Namespace, "uid": &o.UID, "resourceVersion": &version} {
		var text any
		_ = json.Unmarshal(metadata[name], &text)
		*target, _ = text.(string)
	}
	o.Version = change.ResourceVersion(version)
	return o, valid
}

func membersOf(raw []byte) (map[string]json.RawMessage, bool) {
	var members map[string]json.RawMessage
	err := json.Unmarshal(raw, &members)
	return members, err == nil && members != nil
}

// comparable leaves out what the two ways may read differently: escapes in names, and the same name twice.
func comparable(raw []byte) bool {
	return !bytes.Contains(raw, []byte(`\`)) && bytes.Count(raw, []byte(`"metadata"`)) < 2 && bytes.ToValidUTF8(raw, nil) != nil &&
		bytes.Equal(raw, bytes.ToValidUTF8(raw, []byte("?"))) && strings.Count(string(raw), `"name"`) < 2 && strings.Count(string(raw), `"namespace"`) < 2 &&
		strings.Count(string(raw), `"uid"`) < 2 && strings.Count(string(raw), `"resourceVersion"`) < 2
}

const pod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"b","uid":"c","resourceVersion":"42","labels":{"x":"\"\\\u00e9"}},"spec":{"n":[0,-1.5e+3,true,false,null,{},[],"0123456789abcdef"]}}`

// FuzzObject accepts an object when encoding/json accepts it, by itself and inside a list, and finds the same in it.
func FuzzObject(f *testing.F) {
	f.Add([]byte(pod))
	for _, s := range []string{
		`{}`, ` { } `, `{"a":01}`, `{"a":1.}`, `{"a":.1}`, `{"a":-}`, `{"a":1e}`, `{"a":tru}`, `{"a":nul}`, `{"a" : [ 1 , 2 ] , "b" : 3 } `,
		`{"a":1,}`, `{"a":[1,]}`, `{,}`, `{"a"}`, `{"a":}`, `{"a":"\x"}`, `{"a":"\u12g4"}`, `{"a":"\ud800"}`, "{\"a\":\"\x01\"}", "{\"a\":\"\xff\"}",
		`{"a":"12345678\"90"}`, `{"a":"1234567`, `{"a":"1234567\`, `[]`, `null`, `1`, `"x"`, `{}{}`, `{"metadata":null}`, `{"metadata":[{}]}`,
		`{"metadata":{"name":1,"uid":null,"resourceVersion":"1"}}`, `{"kind":null,"metadata":{"name":"long name of an object","uid":"u"}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		want, valid := obvious(t, raw)
		s := rawjson.New(raw)
		var got Object
		got.scan(&s)
		if s.AtEnd() != valid {
			t.Fatalf("accepted: %t, want %t: %q", !valid, valid, raw)
		}
		got.Raw, want.joined = nil, got.joined
		if valid && comparable(raw) && (fmt.Sprint(got) != fmt.Sprint(want) || got.Key() != change.ObjectKey(want.Namespace, want.Name)) {
			t.Fatalf("%q: found %+v, want %+v", raw, got, want)
		}
		line := append(append([]byte(`{"type":"ADDED","object":`), raw...), '}')
		if e := parseEvent(line); (e.Err == nil) != json.Valid(line) {
			t.Fatalf("%q as an event: %v", line, e.Err)
		}
	})
}

// An identity belongs to the bytes that are emitted with it, also if an event has two objects.
func TestAnEventOfTwoObjects(t *testing.T) {
	for second, want := range map[string]string{`{"spec":{}}`: "", strings.ReplaceAll(pod, `"a"`, `"z"`): "b/z"} {
		e := parseEvent([]byte(`{"type":"ADDED","object":` + pod + `,"object":` + second + `}`))
		if string(e.Object.Raw) != second || e.Object.Key() != want || e.Object.typed != (want != "") {
			t.Errorf("%s has the key %q", e.Object.Raw, e.Object.Key())
		}
	}
}

func BenchmarkParseEvent(b *testing.B) {
	line := []byte(`{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"b","uid":"c","resourceVersion":"42","managedFields":[` +
		strings.Repeat(`{"manager":"kubelet","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:lastProbeTime":{},"f:status":{},"f:type":{}}}}}},`, 25) + `{}]}}}`)
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if e := parseEvent(line); e.Err != nil {
			b.Fatal(e.Err)
		}
	}
}

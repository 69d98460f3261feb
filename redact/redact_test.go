package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"kubecdc/test/require"
)

var must = require.NoError

var testKey = Key("0123456789abcdef0123456789abcdef")

func redactorOf(t testing.TB, mode Mode, paths ...string) *Redactor {
	t.Helper()
	rules := Rules{Cluster: "prod", Resource: "secrets", Mode: mode, Key: testKey}
	for _, text := range paths {
		p, err := ParsePath(text)
		must(t, err)
		rules.Fields = append(rules.Fields, p)
	}
	return New(rules)
}

func apply(t testing.TB, r *Redactor, object, raw string) string {
	t.Helper()
	out, err := r.Apply(object, []byte(raw))
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return string(out)
}

var hashes = regexp.MustCompile(`"hmac-sha256:[0-9a-f]{64}"`)

// Everything that is not hidden is unchanged byte for byte, in its order, with numbers and spaces.
func TestWhatIsHiddenAndWhatIsNot(t *testing.T) {
	const applied = `"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"a\":\"Y2FuYXJ5\"}}"`
	for _, c := range []struct {
		name     string
		redactor *Redactor
		in, want string
	}{
		{"plain", redactorOf(t, Plain), `{"data":{"a":"Y2FuYXJ5"},"metadata":{"annotations":{` + applied + `}}}`,
			`{"data":{"a":"Y2FuYXJ5"},"metadata":{"annotations":{` + applied + `}}}`},
		{"hash", redactorOf(t, Hash), `{ "kind" : "Secret","metadata":{"generation":1e3,"annotations":{"x":"y",` + applied + `,"z":"1"}}, "type":"Opaque","data":{"a": "Y2FuYXJ5" ,"b":""},"stringData":{"c":"canary"},"immutable":true}`,
			`{ "kind" : "Secret","metadata":{"generation":1e3,"annotations":{"x":"y","z":"1"}}, "type":"Opaque","data":{"a": # ,"b":#},"stringData":{"c":#},"immutable":true}`},
		{"only the annotation", redactorOf(t, Hash), `{"metadata":{"annotations":{` + applied + `}}}`, `{"metadata":{"annotations":{}}}`},
		{"the annotation first", redactorOf(t, Hash), `{"metadata":{"annotations":{` + applied + `,"b":"c"}}}`, `{"metadata":{"annotations":{"b":"c"}}}`},
		{"the annotation last", redactorOf(t, Hash), `{"metadata":{"annotations":{"b":"c",` + applied + `}}}`, `{"metadata":{"annotations":{"b":"c"}}}`},
		{"twice", redactorOf(t, Hash), `{"data":{"a":"Y2FuYXJ5"},"data":{"a":"Y2FuYXJ5"},"metadata":{"annotations":{` + applied + `,` + applied + `}}}`,
			`{"data":{"a":#},"data":{"a":#},"metadata":{"annotations":{}}}`},
		{"escaped names", redactorOf(t, Hash), `{"d\u0061ta":{"a":"Y2FuYXJ5"},"metadat\u0061":{"annotations":{"kubectl.kubernetes.io\/last-applied-configuration":"canary"}}}`,
			`{"d\u0061ta":{"a":#},"metadat\u0061":{"annotations":{}}}`},
		{"data in other forms", redactorOf(t, Hash), `{"data":["canary"],"stringData":"canary","new":{"a":"canary"}}`, `{"data":#,"stringData":#,"new":#}`},
		{"no base64, no text", redactorOf(t, Hash), `{"data":{"a":"canary!","b":1,"c":{"d":"canary"},"e":null}}`, `{"data":{"a":#,"b":#,"c":#,"e":#}}`},
		{"metadata", redactorOf(t, Metadata), `{"kind":"PartialObjectMetadata","data":{"a":"Y2FuYXJ5"},"apiVersion":"v1","metadata":{"annotations":{` + applied + `}},"spec":1}`,
			`{"kind":"PartialObjectMetadata","apiVersion":"v1","metadata":{"annotations":{}}}`},
		{"metadata, none of it first", redactorOf(t, Metadata), `{"data":{"a":"Y2FuYXJ5"},"kind":"Secret"}`, `{"kind":"Secret"}`},
		{"fields", redactorOf(t, Plain, "data.password", `metadata.annotations.example\.com/token`), `{"data":{"password":"canary","user":"me"},"metadata":{"annotations":{"example.com/token":"canary",` + applied + `}}}`,
			`{"data":{"password":#,"user":"me"},"metadata":{"annotations":{"example.com/token":#}}}`},
		{"lists", redactorOf(t, Plain, "spec.containers.*.env.*.value"), `{"spec":{"containers":[{"env":[{"name":"A","value":"canary"},{"name":"B","value":7}]},{"env":null}]}}`,
			`{"spec":{"containers":[{"env":[{"name":"A","value":#},{"name":"B","value":#}]},{"env":null}]}}`},
		{"lists that are not mentioned", redactorOf(t, Plain, "spec.containers.env.value"), `{"spec":{"containers":[{"env":[{"name":"A","value":"canary"}]}]}}`,
			`{"spec":{"containers":[{"env":[{"name":"A","value":#}]}]}}`},
		{"one element", redactorOf(t, Plain, "spec.args.1"), `{"spec":{"args":["a","canary"]}}`, `{"spec":{"args":["a",#]}}`},
		{"whole parts", redactorOf(t, Plain, "spec.args", "status"), `{"spec":{"args":["canary"]},"status":{"a":1}}`, `{"spec":{"args":#},"status":#}`},
		{"a star that is a name", redactorOf(t, Plain, `data.\*`), `{"data":{"*":"canary","a":"b"}}`, `{"data":{"*":#,"a":"b"}}`},
		{"fields of a Secret's metadata", redactorOf(t, Hash, "metadata.labels.token"), `{"metadata":{"labels":{"token":"canary"}},"data":{"a":"Y2FuYXJ5"}}`,
			`{"metadata":{"labels":{"token":#}},"data":{"a":#}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := hashes.ReplaceAllString(apply(t, c.redactor, "ns/a", c.in), "#")
			if got != c.want {
				t.Errorf("%s\n got %s\nwant %s", c.in, got, c.want)
			}
		})
	}
}

func dataOf(t *testing.T, raw string) map[string]string {
	t.Helper()
	var o struct{ Data, StringData map[string]string }
	must(t, json.Unmarshal([]byte(raw), &o))
	for k, v := range o.StringData {
		o.Data[k+" as text"] = v
	}
	return o.Data
}

// A hash shows that a value changed, and nothing else: not even that two values in different places are equal.
func TestHashesTellOnlyChanges(t *testing.T) {
	r := redactorOf(t, Hash)
	const raw = `{"data":{"a":"Y2FuYXJ5","b":"Y2FuYXJ5"},"stringData":{"a":"canary"}}`
	first := dataOf(t, apply(t, r, "ns/a", raw))
	if again := dataOf(t, apply(t, r, "ns/a", raw)); again["a"] != first["a"] {
		t.Error("the same value has two hashes")
	}
	if first["a"] != first["a as text"] {
		t.Error("data and stringData have other hashes of the same content")
	}
	for what, other := range map[string]string{
		"another key in it":   first["b"],
		"another object":      dataOf(t, apply(t, r, "ns/b", raw))["a"],
		"another value":       dataOf(t, apply(t, r, "ns/a", `{"data":{"a":"Y2FuYXJ6"}}`))["a"],
		"an empty value":      dataOf(t, apply(t, r, "ns/a", `{"data":{"a":""}}`))["a"],
		"another key of ours": dataOf(t, apply(t, New(Rules{Cluster: "prod", Resource: "secrets", Mode: Hash, Key: Key("another key that is long")}), "ns/a", raw))["a"],
		"another cluster":     dataOf(t, apply(t, New(Rules{Cluster: "test", Resource: "secrets", Mode: Hash, Key: testKey}), "ns/a", raw))["a"],
	} {
		if other == first["a"] || !isHash(other) {
			t.Errorf("%s has the hash %s", what, other)
		}
	}
}

// Applying it again changes nothing. Under another mode what is stricter is hidden too.
func TestAgainKeepsHashes(t *testing.T) {
	r := redactorOf(t, Hash, "metadata.labels.x")
	once := apply(t, r, "ns/a", `{"metadata":{"labels":{"x":"canary"}},"data":{"a":"Y2FuYXJ5","b":1},"new":[1]}`)
	twice, err := r.Again("ns/a", []byte(once))
	if err != nil || string(twice) != once {
		t.Errorf("%v\n got %s\nwant %s", err, twice, once)
	}
	if again := apply(t, r, "ns/a", once); again == once {
		t.Error("Apply takes a text in the form of a hash for one")
	}
	if got, err := redactorOf(t, Metadata).Again("ns/a", []byte(once)); err != nil || strings.Contains(string(got), "data\":{\"a") {
		t.Errorf("%v %s", err, got)
	}
}

func TestWhatIsNoObjectIsRefusedAndNotQuoted(t *testing.T) {
	for _, raw := range []string{``, `"canary"`, `["canary"]`, `{"data":{"a":"canary"`, `{"data":{"a":"canary"}}x`, `{"data":{"a":"canary"},}`,
		`{"a":canary}`, `{"data":{"canary\x":1}}`, `{canary:1}`} {
		for _, r := range []*Redactor{redactorOf(t, Hash), redactorOf(t, Metadata), redactorOf(t, Plain, "data.a")} {
			out, err := r.Apply("ns/a", []byte(raw))
			if err == nil || out != nil || strings.Contains(err.Error(), "canary") {
				t.Errorf("%q gives %q, %v", raw, out, err)
			}
			if text := r.Describe([]byte(raw)); strings.Contains(text, "canary") || !json.Valid([]byte(text)) {
				t.Error(text)
			}
		}
	}
}

func TestPathsThatAreRefused(t *testing.T) {
	for path, want := range map[string]string{
		"":                "without a name",
		"a..b":            "without a name",
		".a":              "without a name",
		"a.":              "without a name",
		"a[0].b":          "backslash",
		"a['b']":          "backslash",
		`a\`:              "backslash",
		"a.pass*":         "stands for a complete name",
		"metadata":        "metadata.name",
		"metadata.*":      "metadata.name",
		"*":               "apiVersion",
		"kind":            "kind",
		"metadata.uid":    "metadata.uid",
		"*.name":          "metadata.name",
		"metadata.name":   "what a record is about",
		"{.data.password": "backslash",
	} {
		if _, err := ParsePath(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
	for _, path := range []string{"metadata.annotations", "data.*", `data.tls\.crt`, "spec.template.spec.containers.*.env.*.value", "*.a"} {
		if _, err := ParsePath(path); err != nil {
			t.Error(err)
		}
	}
}

// The key is in nothing that is printed.
func TestTheKeyIsNotShown(t *testing.T) {
	r := redactorOf(t, Hash, "metadata.labels.b", "metadata.labels.a")
	text := r.String() + fmt.Sprintf("%v %+v %s %x %#v %q", testKey, r.rules, r, testKey, Rules{Key: testKey}, testKey)
	if strings.Contains(text, string(testKey)) || strings.Contains(text, fmt.Sprintf("%x", []byte(testKey))) {
		t.Error(text)
	}
	if same := redactorOf(t, Hash, "metadata.labels.a", "metadata.labels.b"); same.String() != r.String() {
		t.Errorf("%s is not %s", same, r)
	}
	if redactorOf(t, Plain).String() != "" || redactorOf(t, Plain) != nil {
		t.Error("plain has a redactor")
	}
}

// Whatever JSON a Secret is, its values are not in what comes out, and all else still reads as it did.
func FuzzNoValueComesThrough(f *testing.F) {
	f.Add(`{"metadata":{"name":"a"},"data":{"k":"@"}}`, "k", "canary-0123456789", false)
	f.Add(`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"@"}},"stringData":{"k":"@"}}`, "k", "x\\\"\n", true)
	f.Add(`{"data":@,"new":["@",{"a":"@"}]}`, "a", `"quoted"`, false)
	f.Add(`{"metadata":{"other":{"kubectl.kubernetes.io/last-applied-configuration":"@"}},"data":{"@":"@"}}`, "k", "canary-0123456789", false)
	f.Add(`{"d\u0061ta":{"a":"@"},"data":{"a":"@","a":"@","b":["@",["@"],{"c":"@"}]},"stringData":["@"]}`, "a", "canary-0123456789", true)
	f.Fuzz(func(t *testing.T, template, name, value string, escape bool) {
		if len(value) < 8 || strings.Contains(template, value) || strings.Contains(name, value) || strings.Contains("hmac-sha256:0123456789abcdef"+lastAppliedAnnotation, value) {
			return
		}
		quoted, _ := json.Marshal(value)
		if escape {
			quoted = fmt.Appendf(nil, `"\u%04x%s`, value[0], quoted[2:])
		}
		encoded := base64.StdEncoding.EncodeToString([]byte(value))
		for _, raw := range []string{
			fmt.Sprintf(`{"kind":"Secret","data":{%q:%q,"z":%s},"stringData":{%q:%s},"other":%s}`, name, encoded, quoted, name, quoted, quoted),
			strings.ReplaceAll(template, "@", value),
		} {
			for _, r := range []*Redactor{redactorOf(t, Hash), redactorOf(t, Metadata)} {
				checkHidden(t, r, raw, value, encoded)
			}
		}
	})
}

func checkHidden(t *testing.T, r *Redactor, raw string, values ...string) {
	out, err := r.Apply("ns/a", []byte(raw))
	if err != nil {
		if json.Valid([]byte(raw)) && strings.HasPrefix(strings.TrimSpace(raw), "{") {
			t.Errorf("refused: %s", raw)
		}
		return
	}
	if !json.Valid(out) {
		t.Fatalf("%s became %s", raw, out)
	}
	for _, text := range shown(t, out) {
		for _, v := range values {
			if strings.Contains(text, v) || strings.Contains(text, strings.ToValidUTF8(v, "\ufffd")) {
				t.Errorf("%q is in %s, from %s", v, out, raw)
			}
		}
	}
}

// shown returns the values of all members that can be hidden. It leaves out metadata, except for the annotation of kubectl apply, and
// the members that identify the object.
func shown(t *testing.T, object []byte) (texts []string) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	_, _ = d.Token()
	for d.More() {
		name, _ := d.Token()
		var value any
		must(t, d.Decode(&value))
		switch name {
		case "apiVersion", "kind", "type", "immutable":
		case "metadata":
			metadata, _ := value.(map[string]any)
			annotations, _ := metadata["annotations"].(map[string]any)
			if applied, found := annotations[lastAppliedAnnotation]; found {
				t.Errorf("%v is in %s", applied, object)
			}
		default:
			texts = append(texts, leaves(value)...)
		}
	}
	return texts
}

func leaves(value any) (texts []string) {
	switch v := value.(type) {
	case map[string]any:
		for _, member := range v {
			texts = append(texts, leaves(member)...)
		}
	case []any:
		for _, element := range v {
			texts = append(texts, leaves(element)...)
		}
	default:
		texts = append(texts, fmt.Sprint(v))
	}
	return texts
}

func BenchmarkApply(b *testing.B) {
	raw := []byte(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"7","managedFields":[` +
		strings.Repeat(`{"manager":"kubectl","fieldsV1":{"f:data":{".":{},"f:a":{}}}},`, 20) + `{}]},"data":{"a":"` + strings.Repeat("YWJj", 500) + `"}}`)
	for _, mode := range []Mode{Hash, Metadata} {
		b.Run(string(mode), func(b *testing.B) {
			r := New(Rules{Cluster: "prod", Resource: "secrets", Mode: mode, Key: testKey})
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Apply("ns/a", raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// managedFields name elements of lists by the values of their fields. If fields are hidden, these names are left out, and nothing else
// is: the entries still say who changed the object, and when.
func TestHiddenValuesAreNotInManagedFields(t *testing.T) {
	const object = `{"metadata":{"name":"p","managedFields":[{"manager":"kubelet","operation":"Update","fieldsType":"FieldsV1",` +
		`"fieldsV1":{"f:status":{"f:podIPs":{".":{},"k:{\"ip\":\"10.0.0.1\"}":{".":{},"f:ip":{}}}}},"subresource":"status"},` +
		`{"manager":"a","fieldsV1":{"f:spec":{"f:set":{"v:\"secret\"":{}}}}}]},"spec":{"set":["secret"]},"status":{"podIPs":[{"ip":"10.0.0.1"}]}}`
	const managed = `"managedFields":[{"manager":"kubelet","operation":"Update","fieldsType":"FieldsV1","subresource":"status"},{"manager":"a"}]`
	var paths []Path
	for _, text := range []string{"status.podIPs.ip", "spec.set.*"} {
		p, err := ParsePath(text)
		must(t, err)
		paths = append(paths, p)
	}
	r := New(Rules{Cluster: "prod", Resource: "pods", Mode: Plain, Fields: paths, Key: testKey})
	out, err := r.Apply("ns/p", []byte(object))
	if err != nil || !json.Valid(out) || !bytes.Contains(out, []byte(managed)) {
		t.Fatalf("%s lacks %s, %v", out, managed, err)
	}
	for _, hidden := range []string{"10.0.0.1", "secret"} {
		if bytes.Contains(out, []byte(hidden)) {
			t.Errorf("%q is in %s", hidden, out)
		}
	}
	again, err := r.Again("ns/p", out)
	if err != nil || string(again) != string(out) {
		t.Errorf("again it is %s, %v", again, err)
	}
}

package change

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// oracle makes a value with encoding/json, to compare with.
func oracle(e Envelope, c *Change, dead *DeadLetter) map[string]any {
	happened, from := c.Happened()
	sequence := []string{string(c.ResourceVersion), "0"}
	if c.Op == Delete && c.Inferred {
		sequence[1] = "1"
	}
	sequenceText, _ := json.Marshal(sequence)
	source := map[string]any{
		"version": e.Version, "connector": "kubernetes", "name": e.Prefix, "snapshot": "false",
		"ts_ms": happened.UnixMilli(), "ts_us": happened.UnixMicro(), "ts_ns": happened.UnixNano(), "ts_from": from,
		"sequence": string(sequenceText), "db": e.Cluster, "schema": c.Namespace, "table": c.Stream.Resource.Plural,
		"group": c.Stream.Resource.Group, "apiVersion": c.Stream.Resource.APIVersion(),
		"kind": c.Stream.Resource.Kind, "uid": c.UID, "resourceVersion": c.ResourceVersion,
		"stream": c.Stream.ID(),
	}
	if c.Op == Read {
		source["snapshot"] = "true"
	}
	if c.Inferred {
		source["inferred"] = true
	}
	if c.Gap != "" {
		source["gap"] = c.Gap
	}
	if len(c.Provenance.Managers) > 0 {
		source["managers"] = string(c.Provenance.Managers)
	}
	if len(c.Provenance.Fields) > 0 {
		source["fieldsChanged"] = string(c.Provenance.Fields)
	}
	if dead != nil {
		source["dead_letter"], source["error"] = dead.ID, dead.Error
	}
	return map[string]any{
		"before": json.RawMessage(OrNull(c.Before)), "after": json.RawMessage(OrNull(c.After)),
		"op": c.Op.String(), "ts_ms": c.Time.UnixMilli(), "ts_us": c.Time.UnixMicro(), "ts_ns": c.Time.UnixNano(), "source": source,
	}
}

// decoded is the JSON value that a consumer sees.
func decoded(t *testing.T, b []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, b)
	}
	return v
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return b
}

func FuzzEnvelope(f *testing.F) {
	f.Add("prod", "k", "web-1", "default", "u-1", "42", "", []byte(`{"a": 1}`), []byte(`{"a": 2 }`), byte('u'), false)
	f.Add("a\"b\\c", "\x00\n\t\r\x1f", "naïve 💥 \u2028<&>", "", "\xff\xfe", "", "pods:7", []byte(nil), []byte(`[]`), byte('r'), true)
	f.Fuzz(func(t *testing.T, cluster, prefix, name, namespace, uid, rv, gap string, before, after []byte, op byte, flag bool) {
		if !json.Valid(before) {
			before = nil
		}
		if !json.Valid(after) {
			after = nil
		}
		if !ResourceVersion(rv).Valid() {
			rv = "7" // as of every object that is exported
		}
		e := Envelope{Cluster: cluster, Prefix: prefix, Version: "v1"}
		c := Change{
			Stream: NewStream(Resource{Group: gap, Version: "v1", Plural: name, Kind: uid}, namespace, rv, ""),
			Op:     []Op{Create, Update, Delete, Read}[op%4], Namespace: namespace, Name: name, UID: uid,
			ResourceVersion: ResourceVersion(rv), Before: before, After: after, Time: time.UnixMilli(int64(op) * 1e9),
			Inferred: flag, Gap: gap, Provenance: Provenance{Managers: []byte(name), Fields: []byte(prefix)},
		}
		if flag {
			c.Provenance.Time, c.Provenance.Source = time.Unix(int64(op), 5), FromManagedFields
		}
		checkValue(t, e, &c)
		key := marshal(t, map[string]any{"cluster": cluster, "namespace": namespace, "name": name})
		if got := e.AppendKey(nil, &c); !reflect.DeepEqual(decoded(t, got), decoded(t, key)) {
			t.Errorf("key %s\nwant %s", got, key)
		}
	})
}

func checkValue(t *testing.T, e Envelope, c *Change) {
	t.Helper()
	got := e.AppendValue([]byte("x"), c)[1:]
	if want := marshal(t, oracle(e, c, nil)); !reflect.DeepEqual(decoded(t, got), decoded(t, want)) {
		t.Errorf("value %s\nwant %s", got, want)
	}
	if !bytes.Contains(got, append([]byte(`,"after":`), OrNull(c.After)...)) {
		t.Errorf("the after image is not the server's own bytes: %s", got)
	}
	d, err := Decode(got)
	if err != nil || !bytes.Equal(d.Before, bytes.TrimSpace(nilIfNull(c.Before))) || !bytes.Equal(d.After, bytes.TrimSpace(nilIfNull(c.After))) {
		t.Errorf("Decode = %q %q, %v; want %q %q", d.Before, d.After, err, c.Before, c.After)
	}
	dead := &DeadLetter{ID: c.UID, Error: c.Name}
	v := e.Value(nil, c, dead)
	complete := v.AppendTo(nil)
	if len(complete) != v.Len() {
		t.Errorf("Len = %d of %d bytes", v.Len(), len(complete))
	}
	if want := marshal(t, oracle(e, c, dead)); !reflect.DeepEqual(decoded(t, complete), decoded(t, want)) {
		t.Errorf("value with dead letter %s\nwant %s", complete, want)
	}
}

func nilIfNull(b []byte) []byte {
	if bytes.Equal(bytes.TrimSpace(b), []byte("null")) {
		return nil
	}
	return b
}

func TestKeyRoundTrip(t *testing.T) {
	e := Envelope{Cluster: "prod"}
	key := e.AppendKey(nil, &Change{Name: "node-1"})
	if string(key) != `{"cluster":"prod","namespace":"","name":"node-1"}` {
		t.Errorf("key of a cluster-scoped object: %s", key)
	}
	cluster, namespace, name, err := DecodeKey(key)
	if err != nil || cluster != "prod" || namespace != "" || name != "node-1" {
		t.Errorf("DecodeKey = %q %q %q %v", cluster, namespace, name, err)
	}
}

func TestStub(t *testing.T) {
	image := []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","annotations":{"big":"x"}},"data":{}}`)
	got, err := Stub(image)
	must(t, err)
	want := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","annotations":{"kubecdc/dead-letter":"143"}}}`
	if string(got) != want {
		t.Errorf("stub %s\nwant %s", got, want)
	}
	if again, err := Stub(got); string(again) != want || err != nil || !IsStub(got) || IsStub(image) {
		t.Errorf("the stub of the stub is %s, %v", again, err)
	}
}

func TestTopic(t *testing.T) {
	long := strings.Repeat("a", 240)
	for _, tc := range []struct {
		prefix   string
		resource Resource
		want     string
	}{
		{"k8s.prod", Resource{Plural: "pods"}, "k8s.prod.pods"},
		{"k8s", Resource{Plural: "deployments", Group: "apps"}, "k8s.deployments.apps"},
		{"my prefix", Resource{Plural: "pods"}, "my_prefix.pods-"},
		{long, Resource{Plural: "deployments", Group: "apps"}, long[:232] + "-"},
	} {
		got := Topic(tc.prefix, tc.resource)
		if !strings.HasPrefix(got, tc.want) || len(got) > 249 {
			t.Errorf("Topic(%q) = %q (%d), want %q", tc.prefix, got, len(got), tc.want)
		}
	}
	if Topic("a b", Resource{}) == Topic("a_b", Resource{}) {
		t.Error("two prefixes share a topic")
	}
}

func BenchmarkAppendValue(b *testing.B) {
	body := []byte(`{"spec":"` + strings.Repeat("x", 4000) + `"}`)
	e := Envelope{Cluster: "prod", Prefix: "k8s", Version: "v1"}
	c := Change{Stream: NewStream(Resource{Version: "v1", Plural: "pods", Kind: "Pod"}, "", "", ""), Op: Create,
		Namespace: "default", Name: "web-1", UID: "e8f6c3a2-8f0c-4a1e-9d1a-000000000000", ResourceVersion: "12345", After: body}
	var dst []byte
	b.SetBytes(int64(len(e.AppendValue(nil, &c))))
	for b.Loop() {
		dst = e.AppendValue(dst[:0], &c)
	}
}

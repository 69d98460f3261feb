package encoding_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/cloudevents/sdk-go/v2/event"

	"kubecdc/change"
	"kubecdc/sinks/encoding"
	"kubecdc/test/hostile"
)

var (
	envelope    = change.Envelope{Cluster: `pröd "eu" 1/2`, Prefix: "k8s", Version: "0.1.0"}
	deployments = change.NewStream(change.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true}, "", "", "")
	nodes       = change.NewStream(change.Resource{Version: "v1", Plural: "nodes", Kind: "Node"}, "", "", "")
)

// changes returns one change of each kind.
func changes() map[string]change.Change {
	image := func(version, data string) []byte {
		return fmt.Appendf(nil, `{"kind":"Deployment","metadata":{"name":"web","resourceVersion":"%s"},"data":%s}`, version, data)
	}
	seen, text := time.Unix(1700000000, 123456789), `"\"quotes\" \\ \u0000 </script> 💥 é\n"`
	update := change.Change{Stream: deployments, Op: change.Update, Namespace: "shop", Name: "web", UID: "e8f6", ResourceVersion: "12",
		Before: image("11", text), After: image("12", `[1e5, "tab\t"]`), Time: seen,
		Provenance: change.Provenance{Time: seen.Add(-time.Second), Source: change.FromManagedFields, Managers: []byte(`kubectl,"odd"`),
			Fields: []byte("spec.replicas")}}
	noBefore, inferred, blind, created, node, indented := update, update, update, update, update, update
	indented.After = []byte("{\n\t\"a\": 1,\r\n  \"b\": \"" + strings.Repeat("\\u00e9é", 200_000) + "\"\n}")
	noBefore.Before = nil
	inferred.Op, inferred.After, inferred.Inferred, inferred.Gap, inferred.Provenance = change.Delete, nil, true, "deployments.apps:9", change.Provenance{}
	blind.Op, blind.Before, blind.After = change.Delete, nil, nil
	created.Op, created.Before = change.Create, nil
	node.Op, node.Before, node.Stream, node.Namespace = change.Read, nil, nodes, ""
	snapshot := node
	snapshot.Stream = change.SnapshotOf(nodes)
	return map[string]change.Change{"update": update, "update without before": noBefore, "inferred delete": inferred,
		"delete without before": blind, "indented": indented, "create": created, "read": node, "snapshot on demand": snapshot}
}

// record is a record as a consumer gets it.
type record struct {
	key, value []byte // value is nil in a tombstone
	headers    map[string]string
}

func encode(t *testing.T, e encoding.Encoder, c *change.Change, dead *change.DeadLetter) record {
	t.Helper()
	r := encoding.Record{Key: envelope.AppendKey(nil, c)}
	e.Encode(&r, c, dead)
	out := record{key: r.Key, headers: map[string]string{}}
	if !r.Tombstone {
		out.value = bytes.Join(r.Value, nil)
	}
	for _, h := range r.Headers {
		out.headers[h.Key] = h.Value
	}
	return out
}

// offline returns all encodings except Avro, which needs a registry. The sink's tests have one.
func offline() encoding.Set {
	all := encoding.NewSet(encoding.AvroOptions{})
	delete(all, encoding.Avro)
	return all
}

// Key, images, managers and changed fields of a record are read back byte for byte, except what the encoding lacks.
func TestWhatIsEncodedIsDecoded(t *testing.T) {
	for name, e := range offline() {
		encoder := e.NewEncoder(envelope)
		for kind, c := range changes() {
			for _, dead := range []*change.DeadLetter{nil, {ID: "id", Error: "too large"}} {
				r := encode(t, encoder, &c, dead)
				if key, err := e.DecodeKey(r.key); err != nil || key != (encoding.Key{envelope.Cluster, c.Namespace, c.Name}) {
					t.Errorf("%s, %s: key %s is read as %q, %v", name, kind, r.key, key, err)
				}
				if name == "object" {
					c.Before = nil
				}
				if r.value == nil {
					if c.After != nil || name != "object" {
						t.Errorf("%s, %s: no value", name, kind)
					}
					continue
				}
				d, err := e.Decode(t.Context(), r.value, r.headers)
				if err != nil || !bytes.Equal(d.Before, c.Before) || !bytes.Equal(d.After, c.After) || string(d.Provenance.Managers) != string(c.Provenance.Managers) ||
					string(d.Provenance.Fields) != string(c.Provenance.Fields) ||
					!d.Provenance.Time.Equal(c.Provenance.Time.Truncate(time.Millisecond)) || d.Provenance.Source != c.Provenance.Source {
					t.Errorf("%s, %s: %s\nis read as %q %q %s, %v", name, kind, r.value, d.Before, d.After, d.Provenance, err)
				}
			}
		}
		for _, broken := range []string{``, `{`, `{}`, `[]`, `{"payload":{}}`, `{"payload":{"after":{}}}`, `{"data":1}`, "\x00\x01"} {
			if d, err := e.Decode(t.Context(), []byte(broken), nil); err == nil && name != "object" {
				t.Errorf("%s reads %q as %+v", name, broken, d)
			}
		}
	}
}

// The CloudEvents SDK accepts each event and finds the envelope in it.
func TestCloudEvents(t *testing.T) {
	e := encoding.NewSet(encoding.AvroOptions{})["cloudevents"].NewEncoder(envelope)
	ids := map[string]string{}
	for kind, c := range changes() {
		r := encode(t, e, &c, nil)
		if r.headers["content-type"] != event.ApplicationCloudEventsJSON {
			t.Errorf("%s: headers %v", kind, r.headers)
		}
		var got event.Event
		if err := json.Unmarshal(r.value, &got); err != nil {
			t.Fatalf("%s: %v\n%s", kind, err, r.value)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%s: %v\n%s", kind, err, r.value)
		}
		if want := envelope.AppendValue(nil, &c); !bytes.Equal(got.Data(), want) || got.DataContentType() != event.ApplicationJSON {
			t.Errorf("%s: %s data %s\nwant %s", kind, got.DataContentType(), got.Data(), want)
		}
		ids[kind] = got.ID()
		happened, _ := c.Happened()
		if !got.Time().Equal(happened) || got.ID() != c.ID() {
			t.Errorf("%s: id %s, time %s, want %s", kind, got.ID(), got.Time(), happened)
		}
	}
	if ids["create"] == ids["update"] || ids["update"] == ids["inferred delete"] {
		t.Errorf("ids %v", ids)
	}
	c := changes()["update"]
	var got event.Event
	if err := json.Unmarshal(encode(t, e, &c, nil).value, &got); err != nil {
		t.Fatal(err)
	}
	if got.Type() != "dev.kubecdc.change.updated" || got.Source() != "/kubecdc/pr%C3%B6d%20%22eu%22%201%2F2" || got.Subject() != "deployments.apps/shop/web" {
		t.Errorf("type %s, source %s, subject %s", got.Type(), got.Source(), got.Subject())
	}
	want := map[string]any{"iodebeziumop": "u", "iodebeziumname": "k8s", "iodebeziumdb": envelope.Cluster, "iodebeziumschema": "shop",
		"iodebeziumtable": "deployments"}
	if !maps.Equal(got.Extensions(), want) {
		t.Errorf("extensions %v", got.Extensions())
	}
}

// An event's attributes may not have control characters, halves of surrogate pairs or noncharacters (CloudEvents 1.0.2, Type
// System), but an object's name may. Each name still leads to its own subject, and names without such characters are unchanged.
func TestSubjectsOfHostileNames(t *testing.T) {
	e := encoding.NewSet(encoding.AvroOptions{})["cloudevents"].NewEncoder(envelope)
	for _, name := range hostile.Names() {
		c := changes()["create"]
		c.Name = name.Text
		var got event.Event
		if err := json.Unmarshal(encode(t, e, &c, nil).value, &got); err != nil {
			t.Fatal(name.What, err)
		}
		forbidden := func(r rune) bool { return unicode.IsControl(r) || r&0xfffe == 0xfffe || r >= 0xfdd0 && r <= 0xfdef }
		if subject := got.Subject(); strings.ContainsFunc(subject, forbidden) {
			t.Errorf("%s: subject %q", name.What, subject)
		}
		// No name has a "%", so unescaping leads back to the name.
		if back, err := url.PathUnescape(strings.TrimPrefix(got.Subject(), "deployments.apps/shop/")); err != nil || back != c.Name {
			t.Errorf("%s: subject %q", c.Name, got.Subject())
		}
	}
}

func TestHeadersOfAnObject(t *testing.T) {
	e := encoding.NewSet(encoding.AvroOptions{})["object"].NewEncoder(envelope)
	c := changes()["update"]
	r := encode(t, e, &c, &change.DeadLetter{ID: "id", Error: "too large"})
	want := map[string]string{"apiVersion": "apps/v1", "kind": "Deployment", "ts_ms": "1699999999123", "ts_from": "managedFields",
		"managers": `kubectl,"odd"`, "fieldsChanged": "spec.replicas", "error": "too large"}
	if !maps.Equal(r.headers, want) || !bytes.Equal(r.value, c.After) {
		t.Errorf("headers %v, value %s", r.headers, r.value)
	}
}

// field is a schema as JsonConverter reads it.
type field struct {
	Type     string
	Optional bool
	Name     string
	Field    string
	Fields   []field
}

// check demands that a value has exactly what its schema describes.
func (f *field) check(t *testing.T, path string, value any) {
	t.Helper()
	ok := false
	switch v := value.(type) {
	case nil:
		ok = f.Optional
	case string:
		ok = f.Type == "string"
	case bool:
		ok = f.Type == "boolean"
	case json.Number:
		_, err := v.Int64()
		ok = f.Type == "int64" && err == nil
	case map[string]any:
		ok = f.Type == "struct"
		for name := range v {
			if !slices.ContainsFunc(f.Fields, func(m field) bool { return m.Field == name }) {
				t.Errorf("the schema lacks %s.%s", path, name)
			}
		}
		for _, m := range f.Fields {
			m.check(t, path+"."+m.Field, v[m.Field])
		}
	}
	if !ok {
		t.Errorf("%s is %v, and the schema says %s", path, value, f.Type)
	}
}

func TestTheSchemaFitsThePayload(t *testing.T) {
	e := encoding.NewSet(encoding.AvroOptions{})["debezium-schema"].NewEncoder(envelope)
	for kind, c := range changes() {
		r := encode(t, e, &c, &change.DeadLetter{ID: "id", Error: "too large"})
		topic := change.Topic(envelope.Prefix, c.Stream.Resource)
		for name, text := range map[string][]byte{".Key": r.key, ".Envelope": r.value} {
			var got struct {
				Schema  field
				Payload any
			}
			d := json.NewDecoder(bytes.NewReader(text))
			d.UseNumber()
			if err := d.Decode(&got); err != nil {
				t.Fatalf("%s: %v\n%s", kind, err, text)
			}
			got.Schema.check(t, kind+name, got.Payload)
			if got.Schema.Name != topic+name || got.Schema.Optional {
				t.Errorf("%s: the schema is %+v", kind, got.Schema)
			}
		}
	}
	c := changes()["update"]
	var got struct {
		Payload struct{ Before, After map[string]string }
	}
	if err := json.Unmarshal(encode(t, e, &c, nil).value, &got); err != nil {
		t.Fatal(err)
	}
	row := func(version string, image []byte) map[string]string {
		return map[string]string{"cluster": envelope.Cluster, "namespace": "shop", "name": "web", "uid": "e8f6", "api_version": "apps/v1",
			"kind": "Deployment", "resource_version": version, "object": string(image)}
	}
	if !maps.Equal(got.Payload.Before, row("11", c.Before)) || !maps.Equal(got.Payload.After, row("12", c.After)) {
		t.Errorf("before %v\nafter %v", got.Payload.Before, got.Payload.After)
	}
}

// BenchmarkEncode encodes an update of an object of 4 KB.
func BenchmarkEncode(b *testing.B) {
	c := changes()["update"]
	c.After = fmt.Appendf(nil, `{"metadata":{"resourceVersion":"12"},"list":[%s]}`, bytes.Repeat([]byte(`{"f:name":{},"name":"web"},`), 150))
	c.Before = c.After
	plain := envelope.AppendKey(nil, &c)
	for name, e := range offline() {
		b.Run(name, func(b *testing.B) {
			encoder := e.NewEncoder(envelope)
			var r encoding.Record
			var out []byte
			b.ReportAllocs()
			for b.Loop() {
				r = encoding.Record{Key: plain, Headers: r.Headers[:0]}
				encoder.Encode(&r, &c, nil)
				out = out[:0]
				for _, part := range r.Value {
					out = append(out, part...)
				}
			}
		})
	}
}

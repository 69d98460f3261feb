package provenance

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/test/require"
)

var must = require.NoError

var (
	deployments = change.NewStream(change.Resource{Group: "apps", Plural: "deployments"}, "", "", "")
	selected    = change.NewStream(change.Resource{Plural: "pods"}, "", "app=web", "")
	seen        = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
)

// object returns a Deployment as kube-apiserver writes it. managers are entries like "kubectl Update 11:00:00 spec.replicas".
func object(metadata, rest string, managers ...string) []byte {
	var entries []string
	for _, m := range managers {
		f := strings.Fields(m)
		e := `{"manager":"` + f[0] + `","operation":"` + f[1] + `","apiVersion":"apps/v1","time":"2026-05-01T` + f[2] +
			`Z","fieldsType":"FieldsV1","fieldsV1":{"f:` + f[3] + `":{".":{},"k:{\"type\":\"V]\"}":{".":{}}}}`
		if len(f) > 4 {
			e += `,"subresource":"` + f[4] + `"`
		}
		entries = append(entries, e+"}")
	}
	if len(entries) > 0 {
		metadata += `,"managedFields":[` + strings.Join(entries, ",") + `]`
	}
	return []byte(`{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web","creationTimestamp":"2026-05-01T10:00:00Z"` +
		metadata + `}` + rest + `}`)
}

func TestWhatAnObjectTells(t *testing.T) {
	const rv1, rv2 = `,"resourceVersion":"1"`, `,"resourceVersion":"2","generation":2`
	const one, two = `,"spec":{"replicas":1,"paused":true},"status":{"ready":1}`, `,"spec":{"replicas":2},"status":{"ready":1,"old":1}`
	controller := "controller Update 10:30:00 status status"
	terminating := rv2 + `,"deletionTimestamp":"2026-05-01T11:00:30Z","deletionGracePeriodSeconds":30`
	for _, tc := range []telling{
		{name: "an update", op: 'u', before: object(rv1, one, "kubectl Update 10:00:00 replicas", controller),
			after: object(rv2, two, controller, "kubectl Update 11:00:00 replicas"),
			time:  "11:00:00", source: "managedFields", managers: "kubectl", fields: "spec.replicas,spec.paused,status.old"},
		{name: "a manager took another one's field", op: 'u', before: object(rv1, one, "kubectl Update 10:00:00 replicas"),
			after: object(rv2, one, "kubectl Update 10:00:00 other", "hpa Update 11:00:00 replicas"),
			time:  "11:00:00", source: "managedFields", managers: "hpa"},
		{name: "two managers", op: 'u', before: object(rv1, one, controller), time: "11:00:01", source: "managedFields",
			after: object(rv2, one, controller, "a,b Apply 11:00:00 x", "hpa Update 11:00:01 y", "hpa Update 11:00:01 y scale"), managers: `a\,b,hpa`},
		{name: "an update in the second of the one before", op: 'u', before: object(rv1, one, controller, "kubectl Update 11:00:00 replicas"),
			after: object(rv2, two, controller, "kubectl Update 11:00:00 paused"), managers: "kubectl", fields: "spec.replicas,spec.paused,status.old"},
		{name: "a field taken in the second of the update before", op: 'u',
			before: object(rv1, one, "kubectl Update 11:00:00 replicas", "hpa Update 10:00:00 paused\":{},\"f:other"),
			after:  object(rv2, one, "kubectl Update 11:00:00 replicas\":{},\"f:paused", "hpa Update 10:00:00 other"), managers: "kubectl"},
		{name: "a field removed in the second of the update before", op: 'u',
			before: object(rv1, one, "kubectl Update 11:00:00 replicas", "hpa Update 10:00:00 a\":{},\"f:b"),
			after:  object(rv2, one, "kubectl Update 11:00:00 replicas", "hpa Update 10:00:00 b")},
		{name: "another manager's entry lost its time", op: 'u', before: object(rv1, one, "helm Apply 10:00:00 replicas", controller),
			after: bytes.Replace(object(rv2, one, "helm Apply 10:00:00 other", controller, "bob Update 11:00:00 replicas scale"),
				[]byte(`"time":"2026-05-01T10:00:00Z",`), nil, 1), time: "11:00:00", source: "managedFields", managers: "bob"},
		{name: "an update that merges old entries", op: 'u', before: object(rv1, one, "a Update 10:00:00 x", "b Update 10:00:01 y"),
			after: object(rv2, one, "ancient-changes Update 10:00:01 x", "kubectl Update 11:00:00 z"), time: "11:00:00", source: "managedFields",
			managers: "kubectl"},
		{name: "an update without a manager", op: 'u', before: object(rv1, one, controller), after: object(rv2, two, controller),
			fields: "spec.replicas,spec.paused,status.old"},
		{name: "an update that hides managedFields", op: 'u', before: object(rv1, one, controller), after: object(rv2, one)},
		{name: "an update, before=none", op: 'u', after: object(rv2, one, controller)},
		{name: "a clock that is ahead", op: 'u', before: object(rv1, one, controller), after: object(rv2, one, "kubectl Update 12:00:01 x"), managers: "kubectl"},
		{name: "a deletion was requested", op: 'u', before: object(rv1, one, controller), after: object(terminating, one, controller),
			time: "11:00:00", source: "deletionTimestamp", fields: "metadata.deletionTimestamp,metadata.deletionGracePeriodSeconds"},
		{name: "an update while terminating", op: 'u', before: object(terminating, one, controller), after: object(terminating, two, controller),
			fields: "spec.replicas,spec.paused,status.old"},
		{name: "a creation", op: 'c', after: object(rv1, one, "kubectl Update 10:00:00 x"), time: "10:00:00", source: "creationTimestamp", managers: "kubectl"},
		{name: "a creation found in a list", op: 'c', inferred: true, after: object(rv1, one, "kubectl Update 10:00:00 x", controller),
			time: "10:00:00", source: "creationTimestamp"},
		{name: "an object that is selected now", op: 'c', stream: selected, after: object(rv1, one, "kubectl Update 10:00:00 x", controller),
			time: "10:30:00", source: "managedFields"},
		{name: "a snapshot", op: 'r', after: object(rv1, one, "kubectl Update 10:00:00 x", controller), time: "10:30:00", source: "managedFields"},
		{name: "a snapshot of an object without managers", op: 'r', after: object(rv1, one), time: "10:00:00", source: "creationTimestamp"},
		{name: "a deletion", op: 'd', before: object(rv1, one, controller)},
		{name: "a deletion after the grace period", op: 'd', before: object(terminating, one, controller), time: "11:00:30", source: "deletionTimestamp"},
		{name: "a deletion that waited for a finalizer", op: 'd', before: object(rv2+`,"deletionTimestamp":"2026-05-01T11:00:00Z","deletionGracePeriodSeconds":0`, one, controller)},
		{name: "a deletion, before=none", op: 'd'},
	} {
		t.Run(tc.name, tc.check)
	}
}

// telling is a change, and what its objects show about it.
type telling struct {
	name          string
	op            change.Op
	before, after []byte
	inferred      bool
	stream        *change.Stream
	time          string // empty if it is unknown
	source        change.TimeSource
	managers      string
	fields        string
}

func (tc telling) check(t *testing.T) {
	c := change.Change{Stream: deployments, Op: tc.op, Before: tc.before, After: tc.after, Time: seen, Inferred: tc.inferred}
	if tc.stream != nil {
		c.Stream = tc.stream
	}
	new(Reader).Read(&c)
	happened, source := c.Happened()
	want, wantSource := seen, change.FromExporter
	if tc.time != "" {
		clock, err := time.Parse(time.TimeOnly, tc.time)
		must(t, err)
		want, wantSource = seen.Truncate(24*time.Hour).Add(clock.Sub(clock.Truncate(24*time.Hour))), tc.source
	}
	if !happened.Equal(want) || source != wantSource {
		t.Errorf("it happened at %s by %s, want %s by %s", happened, source, want, wantSource)
	}
	if got := string(c.Provenance.Managers); got != tc.managers {
		t.Errorf("managers %q, want %q", got, tc.managers)
	}
	if got := string(c.Provenance.Fields); got != tc.fields {
		t.Errorf("fields %q, want %q", got, tc.fields)
	}
}

// The members of custom resources are sorted, so an entry's fields are followed by something else.
func TestSortedObject(t *testing.T) {
	sorted := func(raw []byte) []byte {
		var v any
		must(t, json.Unmarshal(raw, &v))
		raw, _ = json.Marshal(v)
		return raw
	}
	c := change.Change{Stream: deployments, Op: change.Update, Time: seen,
		Before: sorted(object("", "", "kubectl Update 10:00:00 x", "controller Update 10:30:00 y status")),
		After:  sorted(object("", `,"data":{"a.b":1}`, "kubectl Update 10:00:00 x", "controller Update 11:00:00 y status"))}
	new(Reader).Read(&c)
	if happened, _ := c.Happened(); string(c.Provenance.Managers) != "controller" || string(c.Provenance.Fields) != "data" || happened.Hour() != 11 {
		t.Errorf("managers %q, fields %q, time %s", c.Provenance.Managers, c.Provenance.Fields, happened)
	}
}

// Whatever characters managers and fields have in their names, the result is the same as by decoding.
func TestHostileNames(t *testing.T) {
	pieces := []string{`]`, `],`, `]}`, `]},`, `},{`, `{`, `}`, `:`, `"`, `\`, `,`, `a`, ` `, `fieldsV1`, `V1":{`, `}]`, `.`, `é`}
	random := rand.New(rand.NewPCG(rand.Uint64(), 1))
	name := func() (text string) {
		for range 1 + random.IntN(4) {
			text += pieces[random.IntN(len(pieces))]
		}
		return text
	}
	for range 20_000 {
		managers := []string{"a" + name(), "b" + name(), "c" + name()}
		actor := random.IntN(3)
		image := func(stamps [3]string, spec string) []byte {
			var entries []any
			for i, manager := range managers {
				fields := map[string]any{"f:" + name(): map[string]any{}, "k:{\"x\":\"" + name() + "\"}": map[string]any{".": map[string]any{}}}
				if stamps[i] == "10:00:00" {
					fields = map[string]any{"f:x],": map[string]any{}}
				}
				entries = append(entries, map[string]any{"manager": manager, "operation": "Update", "apiVersion": "v1",
					"time": "2026-05-01T" + stamps[i] + "Z", "fieldsType": "FieldsV1", "fieldsV1": fields})
			}
			object := struct {
				Metadata map[string]any `json:"metadata"`
				Spec     map[string]any `json:"spec"`
			}{map[string]any{"managedFields": entries}, map[string]any{"x": spec}}
			if random.IntN(2) == 0 {
				object.Metadata["name"] = "n"
			}
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			must(t, e.Encode(object))
			return bytes.TrimSpace(b.Bytes())
		}
		before, stamps := [3]string{"10:00:00", "10:00:00", "10:00:00"}, [3]string{"10:00:00", "10:00:00", "10:00:00"}
		stamps[actor] = "11:00:00"
		c := change.Change{Stream: deployments, Op: change.Update, Time: seen, Before: image(before, "1"), After: image(stamps, "2")}
		new(Reader).Read(&c)
		want := strings.NewReplacer(`\`, `\\`, `,`, `\,`).Replace(managers[actor])
		fields := slices.DeleteFunc(strings.Split(string(c.Provenance.Fields), ","), func(f string) bool { return f == "metadata.name" })
		if string(c.Provenance.Managers) != want || !slices.Equal(fields, []string{"spec.x"}) {
			t.Fatalf("managers %q, want %q; fields %q\n%s\n%s", c.Provenance.Managers, want, c.Provenance.Fields, c.Before, c.After)
		}
	}
}

// A state that was read back from a log in Avro has its members in another order.
func TestReorderedState(t *testing.T) {
	before := object("", `,"spec":{"list":[{"b":1,"a":[{"d":1,"c":2}]}]}`, "kubectl Update 10:00:00 x", "controller Update 11:00:00 y")
	var v any
	must(t, json.Unmarshal(before, &v))
	before, _ = json.Marshal(v)
	c := change.Change{Stream: deployments, Op: change.Update, Time: seen, Before: before,
		After: object("", `,"spec":{"list":[{"b":1,"a":[{"d":1,"c":2}]}],"new":1}`, "kubectl Update 10:00:00 z", "controller Update 11:00:00 y")}
	new(Reader).Read(&c)
	if happened, _ := c.Happened(); string(c.Provenance.Managers) != "kubectl" || string(c.Provenance.Fields) != "spec.new" || !happened.Equal(seen) {
		t.Errorf("managers %q, fields %q, time %s", c.Provenance.Managers, c.Provenance.Fields, happened)
	}
}

func TestLongListIsCut(t *testing.T) {
	keys := map[string]string{"a.b,c": "1"}
	for c := 'b'; c < 'z'; c++ {
		keys[string(c)] = "1"
	}
	raw, _ := json.Marshal(map[string]any{"data": keys, "metadata": map[string]any{"labels": keys}})
	c := change.Change{Stream: deployments, Op: change.Update, Before: []byte(`{"data":{},"metadata":{}}`), After: raw}
	new(Reader).Read(&c)
	if got := string(c.Provenance.Fields); got != `data.a\.b\,c,data.b,data.c,data.d,data.e,data.f,data.g,data.h,data.i,data.j,...` {
		t.Errorf("fields %s", got)
	}
}

// FuzzFields compares the fields with those found by decoding, and shows that no text makes Read fail.
func FuzzFields(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1,"c":[1,"}"]},"d":2}`), []byte(`{"a":{"b":12,"c":[1,"}"]},"e":{}}`))
	f.Add(object("", `,"spec":{"a":"\\\"","b":{}}`, "x Update 10:00:00 a"), object("", ` , "spec" : {"b":{ }}`, "x Update 11:00:00 a"))
	f.Add([]byte(`{"metadata":{"managedFields":[{"fieldsV1":`), []byte(`{"metadata":{"managedFields":[{"`))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		for _, op := range []change.Op{change.Update, change.Create, change.Delete, change.Read} {
			c := change.Change{Stream: deployments, Op: op, Before: before, After: after, Time: seen}
			new(Reader).Read(&c)
			if op != change.Update || !plain(before) || !plain(after) || bytes.Contains(c.Provenance.Fields, []byte(cutMark)) {
				continue
			}
			got := slices.Sorted(slices.Values(strings.Split(string(c.Provenance.Fields), ",")))
			if want := decodedFields(before, after); !slices.Equal(got, want) && len(want) > 0 {
				t.Errorf("fields %q, want %q\n%s\n%s", got, want, before, after)
			}
		}
	})
}

// plain reports whether text is a JSON object whose names need no escapes.
func plain(text []byte) bool {
	var v map[string]json.RawMessage
	return json.Unmarshal(text, &v) == nil && !bytes.ContainsAny(text, "\\.,") && bytes.HasPrefix(text, []byte("{"))
}

func decodedFields(before, after []byte) (paths []string) {
	for _, top := range differing(before, after) {
		var b, a map[string]json.RawMessage
		_, _ = json.Unmarshal(before, &b), json.Unmarshal(after, &a)
		inner := differing(b[top], a[top])
		if !bytes.HasPrefix(b[top], []byte("{")) || !bytes.HasPrefix(a[top], []byte("{")) {
			paths = append(paths, top)
		}
		for _, name := range inner {
			if top != "metadata" || name != "resourceVersion" && name != "generation" && name != "managedFields" {
				paths = append(paths, top+"."+name)
			}
		}
	}
	return slices.Sorted(slices.Values(paths))
}

func differing(before, after []byte) []string {
	var b, a map[string]json.RawMessage
	if json.Unmarshal(before, &b) != nil || json.Unmarshal(after, &a) != nil {
		return nil
	}
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool { return bytes.Equal(b[name], a[name]) })
}

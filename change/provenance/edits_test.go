package provenance

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// After random edits, the fields and managers are the same as those found by decoding. That compares each entry of managedFields
// with all entries of the other state.
func TestRandomEdits(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	found, managed := 0, 0
	for range 3000 {
		o := randomObject(random)
		managedFields := o.elements[1].elements[3]
		before := o.text()
		for range random.IntN(4) {
			edited := o
			if random.IntN(2) == 0 {
				edited = managedFields
			}
			edited.edit(random)
		}
		after := o.text()
		c := change.Change{Stream: deployments, Op: change.Update, Time: seen, Before: before, After: after}
		new(Reader).Read(&c)
		fields, managers := fieldsByTrees(before, after), managersByAll(before, after)
		got := slices.Sorted(slices.Values(strings.Split(string(c.Provenance.Fields), ",")))
		if string(c.Provenance.Managers) != managers || !slices.Equal(got, fields) {
			t.Fatalf("managers %q, want %q; fields %q, want %q\n%s\n%s", c.Provenance.Managers, managers, got, fields, before, after)
		}
		if len(c.Provenance.Fields) > 0 {
			found++
		}
		if managers != "" {
			managed++
		}
	}
	if found < 500 || managed < 100 {
		t.Errorf("only %d changes have fields, and %d managers", found, managed)
	}
}

// value is the text of a scalar, an array, or an object with the names of its members in their order.
type value struct {
	scalar   string
	names    []string // raw
	elements []*value
	array    bool
	fixed    bool // a scalar that is not edited: the API server never changes it in an entry of managedFields
}

// randomObject has few fields, so that their lists are never cut.
func randomObject(random *rand.Rand) *value {
	metadata := &value{names: []string{"name", "resourceVersion", "labels", "managedFields"}, elements: []*value{
		{scalar: `"web"`}, {scalar: `"1"`}, randomValue(random, 1), {array: true}}}
	for i := range random.IntN(5) {
		fields := &value{names: []string{`f:spec`, `f:status`}, elements: []*value{
			{names: []string{"f:a", `k:{\"type\":\"},{\"x\"}`}, elements: []*value{{}, {}}}, {}}}
		if random.IntN(3) == 0 {
			fields.names, fields.elements = fields.names[:1], fields.elements[:1]
		}
		entry := &value{names: []string{"manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1"}, elements: []*value{
			{scalar: fmt.Sprintf(`"m%d\"]},{"`, i), fixed: true}, {scalar: `"Update"`, fixed: true}, {scalar: `"apps/v1"`, fixed: true},
			{scalar: randomTime(random)}, {scalar: `"FieldsV1"`, fixed: true}, fields}}
		metadata.elements[3].elements = append(metadata.elements[3].elements, entry)
	}
	return &value{names: []string{"kind", "metadata", "spec", "sta\\u0074us"}, elements: []*value{
		{scalar: `"Deployment"`}, metadata, randomValue(random, 3), randomValue(random, 2)}}
}

func randomTime(random *rand.Rand) string {
	return fmt.Sprintf(`"2026-05-01T11:%02d:00Z"`, random.IntN(60))
}

func randomValue(random *rand.Rand, depth int) *value {
	if depth == 0 {
		return &value{scalar: []string{`1`, `-2.5e3`, `12`, `true`, `null`, `""`, `"a"`, `"\\"`, `"\"}],{\""`, `"\u00e9"`, `"é"`, `{}`, `[]`}[random.IntN(13)]}
	}
	v := &value{array: random.IntN(4) == 0}
	for i := range random.IntN(4) {
		v.elements = append(v.elements, randomValue(random, random.IntN(depth)))
		v.names = append(v.names, []string{"a", `b\"`, "é", `\u0041`}[i])
	}
	return v
}

// edit changes one thing somewhere in the value, or changes the order of members.
func (v *value) edit(random *rand.Rand) {
	i := -1
	if len(v.elements) > 0 {
		i = random.IntN(len(v.elements))
	}
	switch {
	case v.scalar != "" && strings.HasSuffix(v.scalar, `Z"`):
		v.scalar = randomTime(random)
	case v.scalar != "":
		if !v.fixed {
			v.scalar = randomValue(random, 0).scalar
		}
	case i < 0:
	case random.IntN(4) > 0:
		v.elements[i].edit(random)
	case random.IntN(2) == 0:
		random.Shuffle(len(v.elements), func(i, j int) {
			v.elements[i], v.elements[j] = v.elements[j], v.elements[i]
			if !v.array {
				v.names[i], v.names[j] = v.names[j], v.names[i]
			}
		})
	default:
		v.elements = slices.Delete(v.elements, i, i+1)
		if !v.array {
			v.names = slices.Delete(v.names, i, i+1)
		}
	}
}

// text returns the value as the API server writes it.
func (v *value) text() []byte {
	if v.scalar != "" {
		return []byte(v.scalar)
	}
	ends := "{}"
	if v.array {
		ends = "[]"
	}
	out := []byte(ends[:1])
	for i, e := range v.elements {
		if i > 0 {
			out = append(out, ',')
		}
		if !v.array {
			out = append(append(append(out, '"'), v.names[i]...), `":`...)
		}
		out = append(out, e.text()...)
	}
	return append(out, ends[1])
}

// sorted returns a text with the members of objects sorted.
func sorted(text []byte) string {
	tokens := rawjson.Scan(nil, text)
	var write func(i int32) string
	write = func(i int32) string {
		token := tokens[i]
		kind := text[token.Start]
		if kind != '{' && kind != '[' {
			return string(text[token.Start:token.End])
		}
		var all []string
		for next := i + 1; next < token.Next; next = tokens[next].Next {
			one := write(next)
			if kind == '{' {
				next = tokens[next].Next
				one += ":" + write(next)
			}
			all = append(all, one)
		}
		if kind == '{' {
			slices.Sort(all)
		}
		return string(kind) + strings.Join(all, ",") + string(kind+2)
	}
	return write(0)
}

// membersByName returns the members of an object, or nil if the text is not an object. Names are as in a list of fields.
func membersByName(text []byte) map[string]json.RawMessage {
	var all map[string]json.RawMessage
	if len(text) == 0 || text[0] != '{' || json.Unmarshal(text, &all) != nil {
		return nil
	}
	return all
}

func fieldsByTrees(before, after []byte) (paths []string) {
	b, a := membersByName(before), membersByName(after)
	for _, top := range slices.Sorted(maps.Keys(union(a, b))) {
		if was, now := membersByName(b[top]), membersByName(a[top]); was == nil || now == nil {
			if different(b[top], a[top]) {
				paths = append(paths, top)
			}
			continue
		} else {
			for name := range union(was, now) {
				known := top == "metadata" && (name == "resourceVersion" || name == "managedFields")
				if !known && different(was[name], now[name]) {
					paths = append(paths, top+"."+name)
				}
			}
		}
	}
	if paths == nil {
		return []string{""}
	}
	slices.Sort(paths)
	return paths
}

func union(a, b map[string]json.RawMessage) map[string]json.RawMessage {
	all := maps.Clone(a)
	if all == nil {
		return b
	}
	maps.Copy(all, b)
	return all
}

func different(a, b []byte) bool {
	return (a == nil) != (b == nil) || a != nil && sorted(a) != sorted(b)
}

// managersByAll lists the managers by the entries of both states, comparing each entry with all others.
func managersByAll(before, after []byte) string {
	var r Reader
	entriesOf := func(object []byte) (all []json.RawMessage, ok bool) {
		raw := membersByName(membersByName(object)["metadata"])["managedFields"]
		return all, raw != nil && json.Unmarshal(raw, &all) == nil
	}
	was, ok1 := entriesOf(before)
	now, ok2 := entriesOf(after)
	if !ok1 || !ok2 {
		return ""
	}
	lacks := func(all []json.RawMessage, one json.RawMessage) bool {
		return !slices.ContainsFunc(all, func(other json.RawMessage) bool { return !different(one, other) })
	}
	for _, raw := range was {
		if lacks(now, raw) {
			r.before = append(r.before, readEntry(raw))
		}
	}
	for _, raw := range now {
		if lacks(was, raw) {
			r.after = append(r.after, readEntry(raw))
		}
	}
	managers, _ := r.compareManagers()
	return string(managers)
}

package sinktest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/sinks"
)

// readByKeys writes lives of objects whose keys sort otherwise than their names, and reads spans of them at random batches, in the order of keys.
func readByKeys(t *testing.T, w *world) {
	for _, q := range []sinks.Query{{Keys: &sinks.Keys{}}, {Each: sinks.Last}, {Each: sinks.Rest, After: &sinks.Cut{}}, {Each: sinks.Table}} {
		err := w.reader(t).Changes(t.Context(), q, func(*sinks.Logged) error { return nil })
		if errors.Is(err, errors.ErrUnsupported) == w.reader(t).FindsObjects() {
			t.Errorf("the log finds objects: %t, and %+v: %v", w.reader(t).FindsObjects(), q, err)
		}
	}
	if !w.reader(t).FindsObjects() {
		t.Skip("the log does not find objects in the order of their keys")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	h := &keyed{Rand: rand.New(rand.NewPCG(seed, 0)), live: map[string]change.Change{}}
	log, _ := w.open(t, slot, 1, sinks.Durable{New: true})
	for range 60 {
		b := wrote(slot, 1, uint64(len(h.states)+1), nil, h.some()...)
		w.write(t, log, b)
		h.states, h.changes = append(h.states, maps.Clone(h.live)), append(h.changes, b.Changes)
	}
	for _, resource := range []string{"pods", "nodes"} {
		for range 40 {
			h.compare(t, w.reader(t), resource)
		}
	}
}

// keyed is what lived with each batch.
type keyed struct {
	*rand.Rand
	live    map[string]change.Change // by resource and key
	states  []map[string]change.Change
	changes [][]change.Change
	version int
}

func (h *keyed) some() (all []change.Change) {
	for range 1 + h.IntN(6) {
		h.version++
		c := object([]string{"a", "b", "b-1", "b.1", "c", "c-1", "web\x00", "web", "ä"}[h.IntN(9)], h.version)
		if c.Stream == pods {
			c.Namespace = []string{"default", "default-1", "default.1", "d"}[h.IntN(4)]
		}
		id := string(c.Stream.ID()) + " " + c.Key()
		c.UID = fmt.Sprint("uid-", id, h.version)
		was, lives := h.live[id]
		switch {
		case !lives:
			h.live[id] = c
		case h.IntN(2) == 0:
			c = gone(was)
			c.ResourceVersion = change.VersionOf(uint64(h.version))
			delete(h.live, id)
		default:
			c.Op, c.UID, c.Before = change.Update, was.UID, was.After
			h.live[id] = c
		}
		all = append(all, c)
	}
	return all
}

// compare reads a span at a batch, and what follows it.
func (h *keyed) compare(t *testing.T, r sinks.Reader, resource string) {
	t.Helper()
	number := h.IntN(len(h.states) + 1)
	state := map[string]change.Change{}
	if number > 0 {
		state = h.states[number-1]
	}
	all := slices.Collect(maps.Keys(h.live))
	q := sinks.Query{Resources: []string{resource}, Keys: &sinks.Keys{}, NoBodies: h.IntN(2) == 0}
	for _, end := range []*string{&q.Keys.After, &q.Keys.UpTo} {
		if h.IntN(3) > 0 {
			_, *end, _ = strings.Cut(all[h.IntN(len(all))], " ")
		}
	}
	if resource == "pods" && h.IntN(3) == 0 {
		q.Namespace = "default"
	}
	if h.IntN(4) == 0 {
		q.Name = "b"
		if resource == "pods" {
			q.Name = "web"
		}
	}
	selects := func(c *change.Change) bool {
		key := c.Key()
		return string(c.Stream.ID()) == resource && key > q.Keys.After && (q.Keys.UpTo == "" || key <= q.Keys.UpTo) &&
			(q.Namespace == "" || c.Namespace == q.Namespace) && (q.Name == "" || c.Name == q.Name)
	}
	cut := &sinks.Cut{Batches: map[int]uint64{slot: uint64(number)}}
	var lived, followed []string
	for _, c := range state {
		if selects(&c) {
			lived = append(lived, c.Key()+"@"+string(c.ResourceVersion))
		}
	}
	for n, changes := range h.changes {
		for _, c := range changes {
			if n >= number && selects(&c) {
				followed = append(followed, c.Key()+"@"+string(c.ResourceVersion))
			}
		}
	}
	byKey := func(a, b string) int {
		return strings.Compare(a[:strings.LastIndex(a, "@")], b[:strings.LastIndex(b, "@")])
	}
	slices.SortFunc(lived, byKey)
	slices.SortStableFunc(followed, byKey)
	ask := func(what string, q sinks.Query, want []string) {
		var got []string
		for _, l := range read(t, r, q) {
			got = append(got, l.Change.Key()+"@"+string(l.ResourceVersion))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s batch %d, %+v of %+v: %q, want %q", what, number, *q.Keys, q, got, want)
		}
	}
	last, rest, after := q, q, q
	last.Each, last.To = sinks.Last, cut
	rest.Each, rest.After, after.After = sinks.Rest, cut, cut
	ask("what lived at", last, lived)
	ask("the rest after", rest, followed)
	ask("all after", after, followed)
}

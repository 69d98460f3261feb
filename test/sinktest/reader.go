package sinktest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/test/require"
)

func (w *world) reader(t *testing.T) sinks.Reader { return w.readerOf(t, Name) }

func (w *world) readerOf(t *testing.T, cluster string) sinks.Reader {
	t.Helper()
	r := w.place.Reader(t, cluster)
	t.Cleanup(func() {
		if finder, ok := r.(sinks.HoleFinder); ok {
			if hole, err := finder.Hole(context.Background()); hole != nil || err != nil {
				t.Errorf("nobody has made a hole in the log: %v, %v", hole, err)
			}
		}
		_ = r.Close()
	})
	return r
}

// read returns copies of the changes that a query selects.
func read(t *testing.T, r sinks.Reader, q sinks.Query) (all []sinks.Logged) {
	t.Helper()
	if err := Poisoned(r).Changes(t.Context(), q, func(l *sinks.Logged) error {
		all = append(all, l.Clone())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func changesOf(logged []sinks.Logged) (changes []change.Change) {
	for _, l := range logged {
		changes = append(changes, l.Change)
	}
	return changes
}

func updated(name string, rv, was int) change.Change {
	c := object(name, rv)
	c.Op, c.Before = change.Update, object(name, was).After
	return c
}

// written fills a log with three batches of two slots, and another cluster's log.
func (w *world) written(t *testing.T) (batches []*change.Batch) {
	t.Helper()
	other, err := w.another(t, "elsewhere", "uid-of-elsewhere").Open(t.Context(), slot, 1, sinks.Durable{New: true})
	must(t, err)
	defer other.Log.Close()
	w.write(t, other.Log, batch(1, 1, object("a", 10), object("x", 11)))
	one, _ := w.open(t, 0, 1, sinks.Durable{})
	two, _ := w.open(t, 1, 4, sinks.Durable{})
	batches = []*change.Batch{
		wrote(0, 1, 1, nil, object("a", 10), object("c", 11), object("bee", 12)),
		wrote(1, 4, 1, nil, updated("d", 15, 14), gone(object("bee", 16))),
		wrote(0, 1, 2, nil, updated("a", 17, 10), gone(object("c", 18)), object("c", 19)),
	}
	inferred := &batches[1].Changes[1]
	inferred.Inferred, inferred.Gap = true, "nodes:12"
	for i, log := range []sinks.Log{one, two, one} {
		w.write(t, log, batches[i])
	}
	return batches
}

func readChanges(t *testing.T, w *world) {
	var want []change.Change
	for _, b := range w.written(t) {
		want = append(want, b.Changes...)
	}
	r := w.reader(t)
	logged := read(t, r, sinks.Query{})
	wantChanges(t, changesOf(logged), want)
	for _, l := range logged {
		i := slices.IndexFunc(want, func(c change.Change) bool { return c.UID == l.UID && c.ResourceVersion == l.ResourceVersion })
		if i < 0 {
			t.Fatalf("nobody wrote %s at %s", l.Change.Key(), l.ResourceVersion)
		}
		c := want[i]
		if w.place.NoBefore {
			c.Before = nil
		}
		if !sameContent(l.Before, c.Before) || l.Inferred != c.Inferred || l.Gap != c.Gap || !l.Time.Equal(c.Time) {
			t.Errorf("%s at %s is read as %+v, before %.200s", c.Key(), c.ResourceVersion, l.Change, l.Before)
		}
		if l.Slot == 1 && (l.Epoch != 4 || l.Batch != 1) || l.Slot == 0 && (l.Epoch != 1 || l.Batch > 2) || l.Logged.Before(began) {
			t.Errorf("%s at %s is of slot %d, epoch %d, batch %d, logged %s", c.Key(), c.ResourceVersion, l.Slot, l.Epoch, l.Batch, l.Logged)
		}
	}
	ids, err := r.Resources(t.Context())
	if err != nil || !slices.Equal(ids, []string{"nodes", "pods"}) {
		t.Errorf("the log has %v, %v", ids, err)
	}
}

// readEmpty: a resource of which the log has never had an object is one of its resources.
func readEmpty(t *testing.T, w *world) {
	if w.place.ByTopic {
		t.Skip("the log has a topic of each resource with objects, and no other")
	}
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	b := wrote(slot, 1, 1, nil, object("a", 10))
	b.Controls = []change.Control{change.SnapshotBeginControl("widgets.example.com", "")}
	w.write(t, log, b)
	if ids, err := w.reader(t).Resources(t.Context()); err != nil || !slices.Equal(ids, []string{"pods", "widgets.example.com"}) {
		t.Errorf("the log has %v, %v", ids, err)
	}
}

func readSelected(t *testing.T, w *world) {
	w.written(t)
	r := w.reader(t)
	for _, tc := range []struct {
		name string
		q    sinks.Query
		want []string
	}{
		{"one resource", sinks.Query{Resources: []string{"nodes"}}, []string{"bee@12", "bee@16"}},
		{"two resources", sinks.Query{Resources: []string{"nodes", "pods"}, Name: "bee"}, []string{"bee@12", "bee@16"}},
		{"another namespace", sinks.Query{Namespace: "elsewhere"}, nil},
		{"one object", sinks.Query{Resources: []string{"pods"}, Namespace: "default", Name: "c"}, []string{"c@11", "c@18", "c@19"}},
		{"an object in whichever namespace", sinks.Query{Resources: []string{"pods"}, Name: "c"}, []string{"c@11", "c@18", "c@19"}},
		{"without bodies", sinks.Query{NoBodies: true, Resources: []string{"pods"}, Namespace: "default", Name: "c"},
			[]string{"c@11", "c@18", "c@19"}},
		{"by its headers", sinks.Query{Wanted: func(l *sinks.Logged) bool { return l.Op == change.Update }}, []string{"a@17", "d@15"}},
		{"an unknown resource", sinks.Query{Resources: []string{"widgets.example.com"}}, nil},
	} {
		var got []string
		for _, l := range read(t, r, tc.q) {
			got = append(got, l.Name+"@"+string(l.ResourceVersion))
			if tc.q.NoBodies == (l.After != nil) && l.Op != change.Delete {
				t.Errorf("%s: the body of %s is %q", tc.name, got, l.After)
			}
		}
		if slices.Sort(got); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func readBetweenCuts(t *testing.T, w *world) {
	r := w.reader(t)
	end := func() *sinks.Cut {
		cut, err := r.CutAt(t.Context(), time.Time{})
		must(t, err)
		return &cut
	}
	one, _ := w.open(t, 0, 1, sinks.Durable{})
	two, _ := w.open(t, 1, 1, sinks.Durable{})
	empty := end()
	first, second, third := object("a", 10), []change.Change{object("a", 11), object("bee", 12)}, []change.Change{object("a", 13), object("e", 14)}
	w.write(t, one, wrote(0, 1, 1, nil, first))
	after1 := end()
	w.write(t, two, wrote(1, 1, 1, nil, second...))
	time.Sleep(3 * time.Millisecond) // cuts by time are as precise as the records' times
	moment := time.Now()
	time.Sleep(3 * time.Millisecond)
	w.write(t, one, wrote(0, 1, 2, nil, third...))
	after3 := end()
	cut, err := r.CutAt(t.Context(), moment)
	must(t, err)
	all := append(append([]change.Change{first}, second...), third...)
	for _, tc := range []struct {
		name      string
		after, to *sinks.Cut
		want      []change.Change
	}{
		{"all", nil, nil, all}, {"from the start", empty, nil, all}, {"to the start", nil, empty, nil},
		{"up to the first batch", nil, after1, all[:1]}, {"after the first batch", after1, nil, all[1:]},
		{"between", after1, after3, all[1:]}, {"up to a time", nil, &cut, all[:3]}, {"after a time", &cut, after3, third},
		{"between a cut and a time", after1, &cut, second}, {"after the end", after3, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantChanges(t, changesOf(read(t, r, sinks.Query{After: tc.after, To: tc.to})), tc.want)
		})
	}
}

// readAtUnknownSlot: all changes of a slot that a cut leaves out are after the cut.
func readAtUnknownSlot(t *testing.T, w *world) {
	batches := w.written(t)
	r, cut := w.reader(t), &sinks.Cut{Batches: map[int]uint64{0: 1}}
	var after []change.Change
	for _, b := range batches[1:] {
		after = append(after, b.Changes...)
	}
	wantChanges(t, changesOf(read(t, r, sinks.Query{To: cut})), batches[0].Changes)
	wantChanges(t, changesOf(read(t, r, sinks.Query{After: cut})), after)
	if !r.FindsObjects() {
		return
	}
	states := func(q sinks.Query) (all []string) {
		for _, l := range read(t, r, q) {
			all = append(all, l.Name+"@"+string(l.ResourceVersion))
		}
		slices.Sort(all)
		return all
	}
	for _, keys := range []*sinks.Keys{nil, {}} {
		if got := states(sinks.Query{Each: sinks.Last, To: cut, Keys: keys}); !slices.Equal(got, []string{"a@10", "bee@12", "c@11"}) {
			t.Errorf("at the cut lived %q", got)
		}
		if got := states(sinks.Query{Each: sinks.Rest, After: cut, Keys: keys}); len(got) != len(after) {
			t.Errorf("after the cut are %q, want all of %d", got, len(after))
		}
	}
}

func readAndFollow(t *testing.T, w *world) {
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	w.write(t, log, batch(1, 1, object("a", 10)))
	r := w.reader(t)
	cut, err := r.CutAt(t.Context(), time.Time{})
	must(t, err)
	w.write(t, log, batch(1, 2, object("a", 11)))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all []change.Change
	written := []change.Change{object("a", 11)}
	for i := range 5 { // nodes are new to the log
		written = append(written, object(fmt.Sprint("bee-", i), 20+i), gone(object(fmt.Sprint("bee-", i), 30+i)))
	}
	next := 0
	err = r.Changes(ctx, sinks.Query{After: &cut, Follow: true}, func(l *sinks.Logged) error {
		all = append(all, l.Clone().Change)
		if len(all) == len(written) {
			cancel()
		} else if len(all)%2 == 1 {
			w.write(t, log, batch(1, uint64(3+next), written[1+2*next:3+2*next]...))
			next++
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("following ended with %v", err)
	}
	wantChanges(t, all, written)
}

func readControls(t *testing.T, w *world) {
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	now := time.Now().UnixMilli()
	b := batch(1, 1, object("a", 10))
	b.Controls = []change.Control{{Type: change.ControlSnapshotBegin, Cluster: Name, Stream: "pods", TimeMs: now}, change.WatermarkControl(b.Positions[0])}
	w.write(t, log, b)
	c := batch(1, 2)
	c.Controls = []change.Control{
		{Type: change.ControlSnapshotEnd, Cluster: Name, Stream: "pods", ResourceVersion: "10", TimeMs: now},
		{Type: change.ControlGap, Cluster: Name, Stream: "nodes", TimeMs: now, Gap: &change.Gap{ID: "nodes:1", From: "1", To: "9", Reason: "why"}},
		{Type: change.ControlWatermark, Cluster: Name, Stream: "nodes", ResourceVersion: "9", TimeMs: now}}
	w.write(t, log, c)
	var got []*change.Control
	if err := w.reader(t).Controls(t.Context(), time.Now().Add(-time.Hour), nil, func(c *change.Control) error {
		if c.Slot != slot || c.Epoch != 1 {
			t.Errorf("a record of slot %d, epoch %d", c.Slot, c.Epoch)
		}
		if c.Type != change.ControlOpen && c.Type != change.ControlSchema {
			got = append(got, c)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, c := range got {
		types = append(types, fmt.Sprint(c.Type, " ", c.Batch))
	}
	if want := []string{"snapshot-begin 1", "watermark 1", "batch 1", "snapshot-end 2", "gap 2", "watermark 2", "batch 2"}; !slices.Equal(types, want) {
		t.Fatalf("the control records are %v, want %v", types, want)
	}
	wantPositions(t, got[2].Positions, b.Positions)
	if got[2].Changes != 1 || got[0].Stream != "pods" || got[3].ResourceVersion != "10" || !reflect.DeepEqual(got[4].Gap, c.Controls[1].Gap) {
		t.Errorf("the control records are %+v", got)
	}
	if early, late, p := got[1], got[5], b.Positions[0]; early.Stream != p.Stream || early.ResourceVersion != p.ResourceVersion ||
		early.TimeMs != p.Time.UnixMilli() || late.Stream != "nodes" || late.ResourceVersion != "9" || late.TimeMs != now {
		t.Errorf("the watermarks are %+v and %+v", early, late)
	}
	if err := w.reader(t).Controls(t.Context(), time.Now().Add(time.Hour), nil, func(c *change.Control) error {
		return fmt.Errorf("a record of the future: %+v", c)
	}); err != nil {
		t.Error(err)
	}
}

func retainedFromTheStart(t *testing.T, w *world) {
	w.written(t)
	r := w.reader(t)
	for _, tc := range []struct {
		asked []string
		want  map[string]sinks.Retained
	}{
		{nil, map[string]sinks.Retained{"pods": {}, "nodes": {}}}, {[]string{"widgets.example.com"}, map[string]sinks.Retained{}},
		{[]string{"pods", "widgets.example.com"}, map[string]sinks.Retained{"pods": {}}},
	} {
		if retained, err := r.Retained(t.Context(), tc.asked); err != nil || !maps.Equal(retained, tc.want) {
			t.Errorf("of %q the log has %+v, %v; want %+v", tc.asked, retained, err, tc.want)
		}
	}
}

// readInOrder moves a stream from slot to slot. A reader gets its changes in order.
func readInOrder(t *testing.T, w *world) {
	var log sinks.Log
	offsets := map[int]change.Offsets{} // by slot
	for i, b := range []*change.Batch{
		wrote(0, 1, 1, nil, object("a", 10)), wrote(0, 1, 2, nil, updated("a", 11, 10)),
		wrote(1, 1, 1, nil, updated("a", 12, 11)), wrote(1, 1, 2, nil, updated("a", 13, 12)),
		wrote(0, 2, 3, nil, updated("a", 14, 13)), wrote(0, 2, 4, nil, updated("a", 15, 14)),
	} {
		if i%2 == 0 {
			log, _ = w.open(t, b.Slot, b.Epoch, sinks.Durable{Seq: b.Seq - 1, Offsets: offsets[b.Slot]})
		}
		offsets[b.Slot] = offsets[b.Slot].Merge(w.write(t, log, b))
	}
	r := w.reader(t)
	for _, q := range []sinks.Query{{}, {Namespace: "default", Name: "a"}} {
		var versions []string
		for _, l := range read(t, r, q) {
			versions = append(versions, string(l.ResourceVersion))
		}
		if want := []string{"10", "11", "12", "13", "14", "15"}; !slices.Equal(versions, want) {
			t.Errorf("the versions of an object are %v", versions)
		}
	}
	var batches []string
	if err := r.Controls(t.Context(), time.Time{}, nil, func(c *change.Control) error {
		if c.Type == change.ControlBatch && c.Changes > 0 {
			batches = append(batches, fmt.Sprintf("%d/%d", c.Slot, c.Batch))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"0/1", "0/2", "1/1", "1/2", "0/3", "0/4"}; !slices.Equal(batches, want) {
		t.Errorf("the batches come in the order %v, want %v", batches, want)
	}
}

var must = require.NoError

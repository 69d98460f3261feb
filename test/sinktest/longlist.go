package sinktest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/query"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
)

// These describe what a first list of many batches leaves in a log. None of the batches moves a position. Each object has its
// number as its version.
const (
	listed    = 300 // objects, in as many batches as a list of 80 MB takes
	listBatch = 3
	lists     = listed / listBatch // batches
	changed   = 30                 // objects, after the list, one a batch
	missed    = 30                 // changes in a gap that a list of many batches closes
)

// longList asks all kinds of questions about such a log.
func longList(t *testing.T, w *world) {
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	batches := listedBatches()
	known := change.Offsets{}
	for i, b := range batches {
		if offsets := w.write(t, log, b); i < lists/2 {
			known = known.Merge(offsets)
		}
	}
	_, recovered := w.open(t, slot, 2, sinks.Durable{Seq: lists / 2, Offsets: known})
	wantBatches(t, recovered, batches[lists/2:]...)
	_, state, objects := w.state(t, slot, 3, everything)
	end := change.VersionOf(listed + changed + missed + 1)
	if wantPositionsAt(t, state, map[change.StreamID]change.ResourceVersion{"pods": end}); len(objects) != listed-1 || state.Lost != nil {
		t.Errorf("%d objects are rebuilt, want %d; lost: %v", len(objects), listed-1, state.Lost)
	}
	if w.place.Reader != nil {
		askLongList(t, w.reader(t), batches)
	}
}

// listedBatches returns the first list, then changes, a gap that a list closes, and a deletion.
func listedBatches() (all []*change.Batch) {
	add := func(changes ...change.Change) *change.Batch {
		all = append(all, wrote(slot, 1, uint64(len(all)+1), nil, changes...))
		return all[len(all)-1]
	}
	move := func(b *change.Batch, to int) {
		confirmed := began.Add(time.Duration(to) * time.Millisecond).UTC()
		b.Positions = []change.Position{{Stream: "pods", ResourceVersion: change.VersionOf(uint64(to)), Time: confirmed}}
	}
	name := func(n int) string { return fmt.Sprint("pod-", n) }
	for n := 1; n <= listed; n += listBatch {
		var page []change.Change
		for i := range listBatch {
			page = append(page, object(name(n+i), n+i))
			page[i].Op = change.Read
		}
		add(page...)
	}
	all[0].Controls = []change.Control{change.SnapshotBeginControl("pods", "")}
	all[lists-1].Controls = []change.Control{change.SnapshotEndControl("pods", change.VersionOf(listed), listed)}
	move(all[lists-1], listed)
	for n := 1; n <= changed; n++ {
		move(add(updated(name(n), listed+n, n)), listed+n)
	}
	gap := change.Gap{ID: "pods:330", From: change.VersionOf(listed + changed), To: change.VersionOf(listed + changed + missed), Complete: true,
		Recovered: missed, Updated: missed}
	for n := 1; n <= missed; n++ {
		c := updated(name(changed+n), listed+changed+n, changed+n)
		c.Gap = gap.ID
		add(c)
	}
	last := all[len(all)-1]
	last.Controls = []change.Control{change.GapControl("pods", gap.To, gap, "")}
	move(last, listed+changed+missed)
	move(add(gone(object(name(listed), listed+changed+missed+1))), listed+changed+missed+1)
	for _, b := range all {
		for i := range b.Controls {
			c := &b.Controls[i]
			c.Cluster, c.Slot, c.Epoch, c.Batch, c.TimeMs = Name, slot, 1, b.Seq, began.UnixMilli()
		}
	}
	return all
}

// askLongList asks the questions of commands.
func askLongList(t *testing.T, r sinks.Reader, batches []*change.Batch) {
	var all []change.Change
	for _, b := range batches {
		all = append(all, b.Changes...)
	}
	wantChanges(t, changesOf(read(t, r, sinks.Query{})), all)
	ends, logged := 0, time.Time{}
	if err := r.Controls(t.Context(), time.Time{}, nil, func(c *change.Control) error {
		if c.Type == change.ControlBatch {
			ends++
			logged = time.UnixMilli(c.TimeMs).Add(time.Millisecond - 1) // the record has milliseconds
		}
		return nil
	}); err != nil || ends != len(batches) {
		t.Errorf("%d batch records, want %d; %v", ends, len(batches), err)
	}
	question := query.Question{Objects: sinks.Objects{Resources: []string{"pods"}}}
	coverage, missing, err := timeline.Covered(t.Context(), r, &question.Objects, time.Time{})
	if err != nil || len(missing) > 0 || len(coverage) != 1 || coverage[0].Since != change.VersionOf(listed) {
		t.Errorf("a history is complete by %+v, lacks %q, %v", coverage, missing, err)
	}
	for version, objects := range map[int]int{listed: listed, listed + changed/2: listed, listed + changed + missed/2: listed, 0: listed - 1} {
		target := timeline.Target{}
		if version > 0 {
			target.Version = change.VersionOf(uint64(version))
		}
		wantStateAt(t, r, question, target, objects)
	}
	wantStateAt(t, r, question, timeline.Target{Logged: logged}, listed-1)
	wantStateAt(t, r, question, timeline.Target{Happened: batches[len(batches)-1].Positions[0].Time}, listed-1)
	wantStateAt(t, r, question, timeline.Target{Batch: &moment.Batch{Slot: slot, Number: lists}}, listed)
	if after, missing, err := query.TailStart(t.Context(), r, nil, timeline.Target{Logged: logged}); err != nil || len(missing) > 0 {
		t.Errorf("a tail begins after %+v, lacks %q, %v", after, missing, err)
	}
	wantLive(t, r, sinks.Table)
	wantLive(t, r, sinks.Last)
}

// wantLive checks that a log that finds live objects has them with their last states.
func wantLive(t *testing.T, r sinks.Reader, each sinks.Each) {
	t.Helper()
	live := 0
	err := r.Changes(t.Context(), sinks.Query{Resources: []string{"pods"}, Each: each}, func(l *sinks.Logged) error {
		if live++; !bytes.Contains(l.After, []byte(`"resourceVersion":"`+string(l.ResourceVersion)+`"`)) {
			t.Errorf("it has %s at %s as %s", l.Name, l.ResourceVersion, l.After)
		}
		return nil
	})
	if !errors.Is(err, errors.ErrUnsupported) && (err != nil || live != listed-1) {
		t.Errorf("%d objects live, want %d; %v", live, listed-1, err)
	}
}

// wantStateAt checks that the state at a moment has want objects, none of them newer, and that it is complete.
func wantStateAt(t *testing.T, r sinks.Reader, q query.Question, target timeline.Target, want int) {
	t.Helper()
	states, err := query.ReadStates(t.Context(), r, q, target)
	if err != nil {
		t.Errorf("the state at %s: %v", target, err)
		return
	}
	objects := 0
	err = states[0].Objects(func(o *query.Object) error {
		if objects++; target.Version != "" && o.ResourceVersion.Compare(target.Version) > 0 {
			t.Errorf("the state at %s has %s at %s", target, o.Name, o.ResourceVersion)
		}
		return nil
	})
	if err != nil || objects != want || len(states[0].Missing) > 0 {
		t.Errorf("the state at %s has %d objects, want %d; it lacks %q; %v", target, objects, want, states[0].Missing, err)
	}
}

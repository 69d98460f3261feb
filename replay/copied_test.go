package replay_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/internal/sqlitefile"
	"kubecdc/query"
	"kubecdc/query/timeline"
	"kubecdc/replay"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/require"
	"kubecdc/test/sinktest"
)

// connect opens the log in a file, for writing and for reading.
func connect(ctx context.Context, path string) (sinks.Sink, sinks.ReadCloser, error) {
	file, err := sqlitefile.Own(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	sink, err := sqlite.New(ctx, file, sqlite.Config{Cluster: "prod"})
	if err != nil {
		return nil, nil, err
	}
	reader, err := sqlite.NewReader(ctx, file, "prod")
	return sink, reader, err
}

var check = require.NoError

// source writes a log. It has two pods of a first list, and a gap that was not recovered. One stream's first list has not ended,
// and another stream was forgotten and listed again.
func source(t *testing.T) (reader sinks.ReadCloser, write func(position string, controls []change.Control, changes ...change.Change)) {
	t.Helper()
	sink, reader, err := connect(t.Context(), filepath.Join(t.TempDir(), "log"))
	check(t, err)
	t.Cleanup(func() { reader.Close() })
	opened, err := sink.Open(t.Context(), 0, 1, sinks.Durable{New: true})
	check(t, err)
	seq := uint64(0)
	write = func(position string, controls []change.Control, changes ...change.Change) {
		t.Helper()
		seq++
		b := change.Batch{Slot: 0, Epoch: 1, Seq: seq, Controls: controls, Changes: changes}
		if stream, version, found := strings.Cut(position, "@"); found {
			b.Positions = []change.Position{{Stream: change.StreamID(stream), ResourceVersion: change.ResourceVersion(version), Time: time.Now()}}
		}
		_, err := opened.Log.Write(t.Context(), &b)
		check(t, err)
	}
	write("", []change.Control{change.SnapshotBeginControl("pods", "")}, object("pods", change.Read, "a", 10), object("pods", change.Read, "b", 15))
	write("pods@20", []change.Control{change.SnapshotEndControl("pods", "20", 2)})
	write("pods@30", nil, object("pods", change.Update, "a", 30))
	write("", []change.Control{change.SnapshotBeginControl("nodes", "")}, object("nodes", change.Read, "n", 31))
	for _, version := range []string{"32", "34"} {
		write("", []change.Control{change.SnapshotBeginControl("secrets", "")}, object("secrets", change.Read, "s"+version, 32))
		write("secrets@"+version, []change.Control{change.SnapshotEndControl("secrets", change.ResourceVersion(version), 1)})
	}
	write("pods@50", []change.Control{change.GapControl("pods", "50", change.Gap{ID: "pods:30", From: "30", To: "50", Reason: "compacted"}, "")},
		object("pods", change.Delete, "b", 15))
	write("pods@60", nil, object("pods", change.Create, "c", 55))
	return reader, write
}

func object(stream string, op change.Op, name string, version int) change.Change {
	body := fmt.Appendf(nil, `{"metadata":{"name":%q,"uid":%q,"resourceVersion":"%d"}}`, name, "uid-"+name, version)
	c := change.Change{Stream: change.ParseStream(change.StreamID(stream)), Op: op, Name: name, UID: "uid-" + name,
		ResourceVersion: change.VersionOf(uint64(version)), Time: time.Now(), After: body}
	if op == change.Delete {
		c.Before, c.After = body, nil
	}
	return c
}

// copied returns a reader of a copy of the log. After the plan is made, the log goes on.
func copied(t *testing.T, from sinks.Reader, path string, filter replay.Filter, start moment.Moment, goOn func()) sinks.Reader {
	t.Helper()
	request := replay.Request{Cluster: "prod", Filter: filter, From: replay.Asked{Moment: start},
		Checkpoint: func(_ context.Context, m moment.Moment) (*replay.Checkpoint, error) {
			return &replay.Checkpoint{Time: time.Now(), Slots: []replay.Slot{{Batch: m.Batch.Number}}}, nil
		}}
	plan, err := request.Plan(t.Context(), from)
	check(t, err)
	goOn()
	check(t, plan.Count(t.Context(), from, nil))
	target := &replay.SinkTarget{Place: path, Connect: func(ctx context.Context) (sinks.Sink, sinks.ReadCloser, error) { return connect(ctx, path) }}
	run := &replay.Run{Plan: plan, Log: sinktest.Poisoned(from), Target: target, Covered: timeline.Copied}
	check(t, run.Begin(t.Context()))
	check(t, run.Do(t.Context()))
	check(t, target.Close())
	_, reader, err := connect(t.Context(), path)
	check(t, err)
	t.Cleanup(func() { reader.Close() })
	return reader
}

// describe returns a resource's state, how far it is complete, and what the state and the history may lack.
func describe(t *testing.T, r sinks.Reader, resource string) (state, history string) {
	t.Helper()
	objects := sinks.Objects{Resources: []string{resource}}
	states, err := query.ReadStates(t.Context(), r, query.Question{Objects: objects}, timeline.Target{})
	check(t, err)
	for _, c := range states[0].Coverage {
		state += fmt.Sprintf("%s-%s", c.Since, c.UpTo)
	}
	check(t, states[0].Objects(func(o *query.Object) error {
		state += " " + o.Name + "@" + string(o.ResourceVersion)
		return nil
	}))
	_, missing, err := timeline.Covered(t.Context(), r, &objects, time.Time{})
	check(t, err)
	return state + " " + strings.Join(states[0].Missing, "; "), strings.Join(missing, "; ")
}

// A complete copy of a stream says how far it is complete: up to the plan's end, with the gaps of the log. Other copies don't
// claim to be complete.
func TestACopyTellsHowFarItIsComplete(t *testing.T) {
	from, write := source(t)
	path := filepath.Join(t.TempDir(), "copy")
	later := func() { write("pods@70", nil, object("pods", change.Create, "d", 70)) }
	start := moment.Moment{Start: true}
	fromStart := copied(t, from, path, replay.Filter{}, start, later)
	part := func(filter replay.Filter, begin moment.Moment) sinks.Reader {
		return copied(t, from, filepath.Join(t.TempDir(), "part"), filter, begin, func() {})
	}
	pods := sinks.Objects{Resources: []string{"pods"}}
	named := sinks.Objects{Resources: pods.Resources, Names: []string{"pods/a"}}
	const nothing, nothingOf = " pods: the log has no control record of it", "the log has no control record of pods"
	for _, tc := range []struct {
		name           string
		copy           sinks.Reader
		resource       string
		state, history string // how they begin
	}{
		{"complete", fromStart, "pods", "20-60 a@30 c@55 ", "pods: changes of the gap between resourceVersions 30 and 50 may be missing: compacted"},
		{"the first list has not ended", fromStart, "nodes", "- n@31 nodes: the log had only a part", "nodes: the log has no complete list"},
		{"listed twice", fromStart, "secrets", "- s32@32 s34@32 secrets: the log had only a part", "secrets: the log has no complete list"},
		{"some operations", part(replay.Filter{Ops: "c"}, start), "pods", " c@55 d@70" + nothing, nothingOf},
		{"one object", part(replay.Filter{Objects: named}, start), "pods", " a@30" + nothing, nothingOf},
		{"a checkpoint", part(replay.Filter{Objects: pods}, moment.Moment{Batch: &moment.Batch{Number: 3}}), "pods", " c@55 d@70" + nothing, nothingOf},
	} {
		state, history := describe(t, tc.copy, tc.resource)
		if exact := tc.name == "complete"; exact && state != tc.state || !strings.HasPrefix(state, tc.state) || !strings.HasPrefix(history, tc.history) {
			t.Errorf("%s: %q, %q", tc.name, state, history)
		}
	}
}

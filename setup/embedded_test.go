package setup

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	checkpointsqlite "kubecdc/checkpoint/sqlite"
	"kubecdc/sinks"
	logsqlite "kubecdc/sinks/sqlite"
	"kubecdc/test/checkpointtest"
	"kubecdc/test/require"
)

var (
	pods  = change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")
	nodes = change.NewStream(change.Resource{Version: "v1", Plural: "nodes", Kind: "Node"}, "", "", "")
)

func created(s *change.Stream, namespace, name, version string) change.Change {
	return change.Change{Stream: s, Op: change.Create, Namespace: namespace, Name: name, UID: "uid-" + name, ResourceVersion: change.ResourceVersion(version),
		Time: time.Now(), After: []byte(`{"metadata":{}}`)}
}

func position(s *change.Stream, version string, ended change.Ended) change.Position {
	return change.Position{Stream: s.ID(), ResourceVersion: change.ResourceVersion(version), Time: time.UnixMilli(1700000000000).UTC(), Ended: ended}
}

// writeEmbedded writes batches to the log in a file, and lets before write the file's checkpoint.
func writeEmbedded(t *testing.T, path string, batches []*change.Batch, before func(*checkpointsqlite.Store)) {
	t.Helper()
	store, err := checkpointsqlite.Open(t.Context(), path)
	must(t, err)
	defer store.Close()
	checkpointtest.Bind(t, store, "prod", "uid")
	sink, err := logsqlite.New(t.Context(), store.File(), logsqlite.Config{Cluster: "prod", ClusterUID: "uid"})
	must(t, err)
	defer sink.Close()
	identity, err := sink.Identity(t.Context())
	must(t, err)
	must(t, store.BindLog(t.Context(), identity))
	opened, err := sink.Open(t.Context(), 0, 1, sinks.Durable{})
	must(t, err)
	defer opened.Log.Close()
	for i, b := range batches {
		b.Epoch, b.Seq = 1, uint64(i)+1
		if _, err := opened.Log.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	before(store)
}

func openEmbedded(t *testing.T, path string) *embedded {
	t.Helper()
	store, err := checkpointsqlite.Open(t.Context(), path)
	must(t, err)
	e, err := newEmbedded(t.Context(), store, "prod")
	must(t, err)
	checkpointtest.Bind(t, e, "prod", "uid")
	return e
}

// The checkpoint of an earlier release has what the log lacks. These are the versions of updates that are not written, the
// forgotten streams, and parts of the status. The checkpoint may be older than the log.
func TestTheCheckpointOfAnEarlierReleaseIsTakenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	gap := change.Control{Type: change.ControlGap, Stream: pods.ID(), Gap: &change.Gap{From: "5", To: "9", Complete: true}}
	updated := created(pods, "ns", "behind", "30")
	updated.Op = change.Update
	writeEmbedded(t, path, []*change.Batch{
		{Changes: []change.Change{created(pods, "ns", "ignored", "9"), created(pods, "ns", "behind", "10"), created(nodes, "", "n", "11")},
			Positions: []change.Position{position(pods, "20", ""), position(nodes, "20", change.EndedDeselected)}},
		{Changes: []change.Change{updated}, Positions: []change.Position{position(pods, "30", "")}},
	}, func(store *checkpointsqlite.Store) {
		state, err := store.Acquire(t.Context(), 0, "a", time.Minute)
		must(t, err)
		object := func(name, version string) checkpoint.Object {
			return checkpoint.Object{Key: "ns/" + name, UID: "uid-" + name, ResourceVersion: change.ResourceVersion(version)}
		}
		err = store.Commit(t.Context(), checkpoint.Commit{Epoch: state.Epoch, Seq: 1, Positions: []change.Position{position(pods, "20", "")}, Controls: []change.Control{gap},
			Streams: []checkpoint.StreamCommit{{Stream: pods.ID(), Upserts: []checkpoint.Object{object("ignored", "15"), object("behind", "10"), object("none", "1")}}}})
		must(t, err)
	})
	for range 2 { // its data is moved once
		e := openEmbedded(t, path)
		var objects []string
		err := e.Inventory(t.Context(), pods.ID(), func(o checkpoint.Object) error {
			objects = append(objects, fmt.Sprint(o.Key, "@", o.ResourceVersion, " ", o.UID))
			return nil
		})
		if want := []string{"ns/ignored@15 uid-ignored", "ns/behind@30 uid-behind"}; err != nil || !reflect.DeepEqual(objects, want) {
			t.Errorf("the objects are %q, %v; want %q", objects, err, want)
		}
		if streams, err := e.Streams(t.Context()); err != nil || !reflect.DeepEqual(streams, []change.Position{position(pods, "30", "")}) {
			t.Errorf("the streams are %+v, %v", streams, err)
		}
		if p, known, err := e.Position(t.Context(), nodes.ID()); err != nil || !known || p != position(nodes, "20", change.EndedDeselected) {
			t.Errorf("the forgotten stream is at %+v, %t, %v", p, known, err)
		}
		if controls, err := e.LastControls(t.Context()); err != nil || !reflect.DeepEqual(controls, []change.Control{gap}) {
			t.Errorf("the last control records are %+v, %v", controls, err)
		}
		if left, err := e.Store.Streams(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("the checkpoint still has %v, %v", left, err)
		}
		e.Close()
	}
}

// Each batch of an embedded log is a checkpoint. It is found by its name, and by the time at which it was written. It has the
// positions of that time, even if batches were merged into spans since.
func TestTheBatchesOfAnEmbeddedLogAreItsCheckpoints(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	var batches []*change.Batch
	for n := range 100 {
		b := &change.Batch{Positions: []change.Position{position(pods, fmt.Sprint(100+n), "")}}
		if n%10 == 0 {
			b.Positions = append(b.Positions, position(nodes, fmt.Sprint(200+n), ""))
		}
		if n == 50 {
			b.Controls = []change.Control{{Type: change.ControlGap, Stream: pods.ID(), Gap: &change.Gap{From: "1", To: "2"}}} // ends a span
		}
		batches = append(batches, b)
	}
	writeEmbedded(t, path, batches, func(*checkpointsqlite.Store) {})
	e := openEmbedded(t, path)
	defer e.Close()
	if slots, err := e.HistorySlots(t.Context()); err != nil || !reflect.DeepEqual(slots, []int{0}) {
		t.Errorf("slots with a history: %v, %v", slots, err)
	}
	newest, err := e.Select(t.Context(), 0, checkpoint.Window{Limit: 3})
	if err != nil || len(newest) != 3 || newest[0].Seq != 100 || newest[2].Seq != 98 || newest[0].Positions[0].ResourceVersion != "199" {
		t.Errorf("the newest are %+v, %v", newest, err)
	}
	if all, err := e.Select(t.Context(), 0, checkpoint.Window{Until: newest[2].Time}); err != nil || len(all) < 98 || all[len(all)-1].Seq != 1 {
		t.Errorf("%d checkpoints were stored until then, %v", len(all), err)
	}
	for _, n := range []uint64{1, 7, 49, 51, 88, 100} {
		named, err := e.Select(t.Context(), 0, checkpoint.Window{Batch: n, Limit: 1})
		if err != nil || len(named) != 1 || named[0].Seq != n {
			t.Fatalf("batch %d is %+v, %v", n, named, err)
		}
		positions, err := e.PositionsAt(t.Context(), 0, n)
		got := map[change.StreamID]change.ResourceVersion{}
		for _, p := range positions {
			got[p.Stream] = p.ResourceVersion
		}
		want := map[change.StreamID]change.ResourceVersion{pods.ID(): change.VersionOf(99 + n), nodes.ID(): change.VersionOf(200 + (n-1)/10*10)}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("at batch %d the positions are %v, %v; want %v", n, got, err, want)
		}
	}
	if none, err := e.Select(t.Context(), 0, checkpoint.Window{Batch: 101, Limit: 1}); err != nil || len(none) > 0 {
		t.Errorf("a batch that is not there is %+v, %v", none, err)
	}
}

var must = require.NoError

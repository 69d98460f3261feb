// Package gappedlog makes a small log in a file with a gap, for tests of answers about it.
package gappedlog

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
)

var (
	Began = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	pods  = change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")
	// A Deployment owns web-02, and a Node owns web-03.
	nodes       = change.NewStream(change.Resource{Version: "v1", Plural: "nodes", Kind: "Node"}, "", "", "")
	deployments = change.NewStream(change.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true}, "", "", "")
)

// writtenLog is a log with batches at given minutes. In minute n versions are up to n.
type writtenLog struct {
	t      *testing.T
	copied []sinks.Copied
	last   map[string][]byte
}

func (w *writtenLog) pod(minute int, op change.Op, name, image string) change.Change {
	owner := ""
	if name == "web-02" {
		owner = `"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"plan","uid":"plan","controller":true}],`
	}
	if name == "web-03" {
		owner = `"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n1","uid":"n1","controller":true}],`
	}
	return w.change(pods, minute, op, name, owner, image)
}

func (w *writtenLog) change(stream *change.Stream, minute int, op change.Op, name, owner, image string) change.Change {
	c := change.Change{Stream: stream, Op: op, Namespace: "shop", Name: name, UID: name, ResourceVersion: change.VersionOf(uint64(minute)),
		Time: Began.Add(time.Duration(minute) * time.Minute), Before: w.last[name]}
	if stream == nodes {
		c.Namespace = ""
	}
	if delete(w.last, name); op != change.Delete {
		c.After = fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"name":%q,"namespace":"shop","uid":%q,%s"resourceVersion":"%d","managedFields":[]},`+
			`"spec":{"image":%q}}`, stream.Resource.Kind, stream.Resource.APIVersion(), name, name, owner, minute, image)
		w.last[name] = c.After
	}
	return c
}

func (w *writtenLog) batch(minute int, controls []change.Control, changes ...change.Change) {
	moment := Began.Add(time.Duration(minute) * time.Minute)
	for i := range controls {
		controls[i].TimeMs = moment.UnixMilli()
	}
	w.copied = append(w.copied, sinks.Copied{Cluster: "c", Logged: moment, Batch: change.Batch{Epoch: 1, Seq: uint64(len(w.copied) + 1), Changes: changes, Controls: controls,
		Positions: []change.Position{{Stream: pods.ID(), ResourceVersion: change.VersionOf(uint64(minute)), Time: moment},
			{Stream: deployments.ID(), ResourceVersion: change.VersionOf(uint64(minute)), Time: moment},
			{Stream: nodes.ID(), ResourceVersion: change.VersionOf(uint64(minute)), Time: moment}}}})
}

// New returns a log with 20 Pods. One is updated, one deleted with its owner, and a gap of ten minutes is not recovered.
func New(t *testing.T) *sqlite.Reader {
	w := &writtenLog{t: t, last: map[string][]byte{}}
	var first []change.Change
	for i := range 20 {
		first = append(first, w.pod(1, change.Read, fmt.Sprintf("web-%02d", i), "a:1"))
	}
	first = append(first, w.change(deployments, 1, change.Read, "plan", "", ""), w.change(nodes, 1, change.Read, "n1", "", ""))
	w.batch(1, []change.Control{change.SnapshotBeginControl(pods.ID(), ""), change.SnapshotEndControl(pods.ID(), "1", 20),
		change.SnapshotBeginControl(deployments.ID(), ""), change.SnapshotEndControl(deployments.ID(), "1", 1),
		change.SnapshotBeginControl(nodes.ID(), ""), change.SnapshotEndControl(nodes.ID(), "1", 1)}, first...)
	for minute := 2; minute <= 60; minute++ {
		switch {
		case minute == 10:
			w.batch(10, nil, w.pod(10, change.Update, "web-01", "a:2"))
		case minute == 20:
			w.batch(20, nil, w.change(deployments, 20, change.Delete, "plan", "", ""))
		case minute == 21:
			w.batch(21, nil, w.pod(21, change.Delete, "web-02", ""))
		case minute == 23:
			w.batch(23, nil, w.change(nodes, 23, change.Delete, "n1", "", ""))
		case minute == 24:
			w.batch(24, nil, w.pod(24, change.Delete, "web-03", ""))
		case minute == 35:
			w.batch(35, []change.Control{change.GapControl(pods.ID(), "35", change.Gap{ID: "g", From: "25", To: "35", Reason: "the server has compacted it"}, "")})
		case minute < 25 || minute > 35:
			w.batch(minute, nil)
		}
	}
	file := try(sqlitefile.Own(t.Context(), filepath.Join(t.TempDir(), "log")))(t)
	t.Cleanup(file.Close)
	sink := try(sqlite.New(t.Context(), file, sqlite.Config{Cluster: "c"}))(t)
	to, _, err := sink.NewCopy(t.Context())
	if err == nil {
		err = to.Write(t.Context(), w.copied, sqlite.Copied{Identity: "i"})
	}
	if err != nil {
		t.Fatal(err)
	}
	return try(sqlite.NewReader(t.Context(), file, "c"))(t)
}

func try[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

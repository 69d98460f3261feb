package sinktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"kubecdc/change"
	"kubecdc/sinks"
)

// world is one destination, and makes the processes that write to it.
type world struct {
	newPlace NewPlace
	place    Place
}

// sink connects like a new process.
func (w *world) sink(t *testing.T) sinks.Sink {
	t.Helper()
	s := w.place.Connect(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the sink: %v", err)
		}
	})
	return s
}

func (w *world) another(t *testing.T, cluster, uid string) sinks.Sink {
	t.Helper()
	s := w.place.Another(t, cluster, uid)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// open acquires a slot like a new process, and reads the tail. Earlier owners remain open.
func (w *world) open(t *testing.T, slot int, epoch int64, from sinks.Durable) (sinks.Log, []sinks.Recovered) {
	t.Helper()
	opened := w.opened(t, slot, epoch, from)
	recovered, lost, err := Tail(t.Context(), opened)
	if err != nil || lost != nil {
		t.Fatalf("read the tail of slot %d with epoch %d: lost %v, error %v", slot, epoch, lost, err)
	}
	if opened.Memory != nil && !from.New {
		recovered = w.logged(t, slot, from.Seq)
	}
	return opened.Log, recovered
}

// opened acquires a slot, and does not read the tail.
func (w *world) opened(t *testing.T, slot int, epoch int64, from sinks.Durable) *sinks.Opened {
	t.Helper()
	opened, err := w.sink(t).Open(t.Context(), slot, epoch, from)
	if err != nil {
		t.Fatalf("open slot %d with epoch %d: %v", slot, epoch, err)
	}
	t.Cleanup(func() { opened.Log.Close() })
	if opened.Hole != nil {
		t.Errorf("nobody has made the hole that a new owner finds: %v", opened.Hole)
	}
	return opened
}

// Tail reads a complete tail into memory, and returns what the log has lost.
func Tail(ctx context.Context, opened *sinks.Opened) (all []sinks.Recovered, lost *sinks.LostTailError, err error) {
	if opened.Tail == nil {
		return nil, opened.Lost, nil
	}
	err = opened.Tail(ctx, func(r *sinks.Recovered) error {
		own := *r
		own.Batch.Changes = slices.Clone(r.Batch.Changes)
		for i := range own.Batch.Changes {
			own.Batch.Changes[i].After = bytes.Clone(own.Batch.Changes[i].After)
		}
		all = append(all, own)
		return nil
	})
	if lost = opened.Lost; errors.As(err, &lost) {
		err = nil
	}
	return all, lost, err
}

func (w *world) write(t *testing.T, log sinks.Log, b *change.Batch) change.Offsets {
	t.Helper()
	offsets, err := log.Write(t.Context(), b)
	if err != nil {
		t.Fatalf("write batch %d: %v", b.Seq, err)
	}
	return offsets
}

// began is the time of the tests' changes. It is now, since a broker may compact older records at any moment.
var began = time.Now().Truncate(time.Millisecond)

var (
	pods  = change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")
	nodes = change.NewStream(change.Resource{Version: "v1", Plural: "nodes", Kind: "Node"}, "", "", "")
)

// object returns the creation of an object. Objects whose name begins with b are cluster-scoped.
func object(name string, rv int) change.Change { return padded(name, rv, 10) }

func padded(name string, rv, size int) change.Change {
	c := change.Change{
		Stream: pods, Op: change.Create, Namespace: "default", Name: name, UID: "uid-" + name,
		ResourceVersion: change.VersionOf(uint64(rv)), Time: began.Add(time.Duration(rv) * time.Millisecond),
	}
	if strings.HasPrefix(name, "b") {
		c.Stream, c.Namespace = nodes, ""
	}
	body := fmt.Sprintf(
		`{"kind":%q,"apiVersion":"v1", "metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":"%d","annotations":{"note":"<é>\u2028 %s"}}}`,
		c.Stream.Resource.Kind, name, c.Namespace, c.UID, rv, strings.Repeat("ä", size/2))
	c.After = []byte(strings.ReplaceAll(body, `\x00`, `\u0000`)) // as JSON has it
	return c
}

// gone returns the deletion of an object.
func gone(c change.Change) change.Change {
	c.Op, c.Before, c.After = change.Delete, c.After, nil
	return c
}

func batch(epoch int64, seq uint64, changes ...change.Change) *change.Batch {
	return &change.Batch{
		Slot: slot, Epoch: epoch, Seq: seq, Changes: changes,
		Positions: []change.Position{
			{Stream: "nodes", ResourceVersion: change.VersionOf(seq * 100), Time: began.UTC()},
			{Stream: "pods", Time: began.Add(1 * time.Millisecond).UTC()},
			{Stream: "widgets.example.com", Time: began.Add(2 * time.Millisecond).UTC(), Ended: change.EndedRemoved},
		},
	}
}

// wantBatches compares the fields that recovered batches must have. Changes of different objects have no order.
func wantBatches(t *testing.T, got []sinks.Recovered, want ...*change.Batch) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("recovered %d batches, want %d", len(got), len(want))
	}
	for i := range got {
		g, w := &got[i].Batch, want[i]
		if g.Slot != w.Slot || g.Epoch != w.Epoch || g.Seq != w.Seq {
			t.Errorf("recovered slot %d epoch %d batch %d, want %d, %d, %d", g.Slot, g.Epoch, g.Seq, w.Slot, w.Epoch, w.Seq)
		}
		wantPositions(t, g.Positions, w.Positions)
		wantChanges(t, g.Changes, w.Changes)
	}
}

func wantPositions(t *testing.T, got, want []change.Position) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("recovered %d positions, want %d", len(got), len(want))
		return
	}
	for i, g := range got {
		if w := want[i]; g.Stream != w.Stream || g.ResourceVersion != w.ResourceVersion || !g.Time.Equal(w.Time) || g.Ended != w.Ended {
			t.Errorf("recovered position %+v, want %+v", g, w)
		}
	}
}

func wantChanges(t *testing.T, got, want []change.Change) {
	t.Helper()
	g, w := byObject(got), byObject(want)
	if len(got) != len(want) || len(g) != len(w) {
		t.Errorf("recovered %d changes of %d objects, want %d of %d", len(got), len(g), len(want), len(w))
	}
	for key := range w {
		if len(g[key]) != len(w[key]) {
			t.Errorf("%s: recovered %d changes, want %d", key, len(g[key]), len(w[key]))
			continue
		}
		for i := range w[key] {
			wantChange(t, key, g[key][i], w[key][i])
		}
	}
}

func byObject(changes []change.Change) map[string][]change.Change {
	m := map[string][]change.Change{}
	for _, c := range changes {
		key := string(c.Stream.ID()) + " " + c.Key()
		m[key] = append(m[key], c)
	}
	return m
}

func wantChange(t *testing.T, key string, got, want change.Change) {
	t.Helper()
	if got.Op != want.Op || got.Namespace != want.Namespace || got.Name != want.Name || got.UID != want.UID ||
		got.ResourceVersion != want.ResourceVersion {
		t.Errorf("%s: recovered %s %s uid %s at %s, want %s %s uid %s at %s", key,
			got.Op, got.Key(), got.UID, got.ResourceVersion, want.Op, want.Key(), want.UID, want.ResourceVersion)
	}
	if !sameContent(got.After, want.After) {
		t.Errorf("%s: recovered body\n%.200s\nwant\n%.200s", key, got.After, want.After)
	}
}

// sameContent compares objects. A log may have their members in another order. bodiesAsWritten compares their bytes.
func sameContent(got, want []byte) bool {
	if bytes.Equal(got, want) || got == nil || want == nil {
		return (got == nil) == (want == nil)
	}
	one, err := decoded(got)
	other, failed := decoded(want)
	return err == nil && failed == nil && reflect.DeepEqual(one, other)
}

// decoded keeps the text of numbers, since some are no float64.
func decoded(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// wantMalformed compares malformed events, with the part of the reason that a text column accepts.
func wantMalformed(t *testing.T, got, want []change.Malformed) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d dead letters, want %d", len(got), len(want))
	}
	for _, m := range want {
		if !slices.ContainsFunc(got, func(g change.Malformed) bool {
			return g.Stream == m.Stream && bytes.Equal(g.Bytes, m.Bytes) && strings.HasPrefix(g.Reason, asText(m.Reason))
		}) {
			t.Errorf("no dead letter of %s with %d bytes, %.20q, because %q", m.Stream, len(m.Bytes), m.Bytes, m.Reason)
		}
	}
}

// asText returns the part of s before the first character that a text column refuses.
func asText(s string) string {
	if end := strings.IndexFunc(s, func(r rune) bool { return r == utf8.RuneError || r == 0 }); end >= 0 {
		return s[:end]
	}
	return s
}

// wantOffsets compares offsets. It ignores what else a batch says of its topics, which is not read back.
func wantOffsets(t *testing.T, got, want change.Offsets) {
	t.Helper()
	want = change.Offsets{}.Merge(want)
	for topic := range want {
		delete(want[topic], change.TopicID)
	}
	if len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("recovered offsets %v, Write said %v", got, want)
	}
}

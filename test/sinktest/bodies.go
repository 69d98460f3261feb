package sinktest

import (
	"bytes"
	"maps"
	"testing"

	"kubecdc/change"
	"kubecdc/sinks"
)

// bodiesOfTheLog checks that a log with bodies has each object's last one, also after another owner has written it.
func bodiesOfTheLog(t *testing.T, w *world) {
	opened := w.opened(t, slot, 1, sinks.Durable{})
	if opened.Memory == nil {
		t.Skip("this log does not give bodies")
	}
	first, cluster, removed := object("a", 10), object("b", 11), object("c", 12)
	w.write(t, opened.Log, ofPods(1, 1, first, cluster, removed))
	newer := updated("a", 20, 10)
	w.write(t, opened.Log, ofPods(1, 2, newer, gone(removed)))
	want := map[string]string{"default/a": string(newer.After)}
	wantBodies := func(o *sinks.Opened) {
		t.Helper()
		got := map[string]string{}
		err := o.Memory.Bodies(t.Context(), "pods", []string{"default/a", "default/c", "default/none", "b"}, func(key string, body []byte) error {
			got[key] = string(body)
			return nil
		})
		if err != nil || !maps.Equal(got, want) {
			t.Fatalf("bodies of pods: %q, want %q; %v", got, want, err)
		}
	}
	wantBodies(opened)
	next := w.opened(t, slot, 2, sinks.Durable{Seq: 2})
	wantBodies(next)
	for seq := uint64(3); seq < 6; seq++ { // first from the log, then as this owner has written it
		c, unknown := updated("a", int(seq)*10, int(seq)*10-10), updated("none", 1, 0)
		c.Before, unknown.Before = nil, nil
		var memory []byte
		err := next.Memory.Before(t.Context(), []*change.Change{&c, &unknown}, func(n int) []byte {
			memory = make([]byte, 0, n)
			return memory
		})
		if err != nil || string(c.Before) != want["default/a"] || unknown.Before != nil {
			t.Fatalf("before batch %d: %q and %q, want %q and none; %v", seq, c.Before, unknown.Before, want["default/a"], err)
		}
		want["default/a"] = string(c.After)
		w.write(t, next.Log, ofPods(2, seq, c))
		clear(memory[:cap(memory)]) // the caller may reuse it
	}
	wantBodies(next)
	hidden := updated("a", 70, 50)
	hidden.Before = []byte(`{"kind":"Pod","metadata":{"name":"a","note":"redacted since"}}`)
	w.write(t, next.Log, ofPods(2, 6, hidden))
	if w.place.Reader == nil {
		return
	}
	logged := read(t, w.reader(t), sinks.Query{Resources: []string{"pods"}, Name: "a"})
	if n := len(logged); n != 6 || !bytes.Equal(logged[n-1].Before, hidden.Before) || !bytes.Equal(logged[n-2].Before, logged[n-3].After) {
		t.Fatalf("%d changes of the object, or other states before than were written: %+v", n, logged)
	}
}

package sqlite_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/query"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
)

// What a log says in short is what it says in full, at every moment, also after its start has gone.
func TestALogInShortAnswersAlike(t *testing.T) {
	h, sink, r := newHistory(t, filepath.Join(t.TempDir(), "log"), 3, sqlite.Config{History: time.Millisecond})
	began, logged := time.Now().Add(-time.Hour).Truncate(time.Second), time.Now()
	at := func(seq uint64) time.Time { return began.Add(time.Duration(seq) * time.Second) }
	for seq := uint64(1); seq <= 400; seq++ {
		b := &change.Batch{Epoch: 1, Seq: seq, Changes: []change.Change{h.next()}}
		b.Changes[0].Time = at(seq)
		b.Positions = []change.Position{{Stream: pods.ID(), ResourceVersion: change.VersionOf(uint64(h.version)), Time: at(seq)}}
		if seq%80 == 0 { // it ends a span
			b.Controls = []change.Control{change.GapControl(pods.ID(), change.VersionOf(uint64(h.version)), change.Gap{ID: fmt.Sprint("pods:", h.version),
				From: change.VersionOf(uint64(h.version) - 5), To: change.VersionOf(uint64(h.version)), Reason: "compacted"}, "")}
		}
		if _, err := h.log.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if seq == 200 {
			logged = time.Now()
		}
	}
	for _, pruned := range []bool{false, true} {
		if pruned {
			if err := sink.Prune(t.Context(), logged.Add(10*time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		short := 0
		err := r.Outline(t.Context(), func(*sinks.Span) bool { return false }, func(*change.Control) error { short++; return nil })
		if err != nil || short > 130 {
			t.Errorf("in short it has %d records: %v", short, err)
		}
		for seq := uint64(1); seq <= 400; seq += 7 {
			for _, moment := range []query.Target{{Happened: at(seq)}, {Version: change.VersionOf(seq)}, {Logged: logged}, {}} {
				if got, want := answer(t, r, moment), answer(t, struct{ sinks.Reader }{r}, moment); !reflect.DeepEqual(got, want) {
					t.Fatalf("%s: %q, want %q", moment, got, want)
				}
			}
		}
	}
}

// answer is what a log says of a moment.
func answer(t *testing.T, r sinks.Reader, moment query.Target) (all []string) {
	t.Helper()
	states, err := query.ReadStates(t.Context(), r, query.Question{}, moment)
	if err != nil {
		return []string{err.Error()}
	}
	err = states[0].Objects(func(o *query.Object) error {
		all = append(all, fmt.Sprint(o.Name, o.UID, o.ResourceVersion, string(o.Body)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return append(all, fmt.Sprint(states[0].Coverage), fmt.Sprint(states[0].Missing))
}

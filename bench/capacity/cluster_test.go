package main

import (
	"encoding/json"
	"sync"
	"testing"
	"time"
)

// The API server sends of each resource an object with its own name, uid and version, in each state that a turn leads to.
func TestTurnsLeadToCompleteObjects(t *testing.T) {
	s, err := newAPIServer(cluster{nodes: 5000, pods: 150000, podsADay: 1e6, scale: 0.001})
	if err != nil {
		t.Fatal(err)
	}
	var turns sync.WaitGroup
	for _, c := range s.collections {
		for n := 0; n < 10 && c.turns > 0; n++ {
			before := len(c.log)
			c.turn(time.Time{}, &turns)
			if turns.Wait(); len(c.log) != before+c.changesATurn() {
				t.Errorf("%s: a turn made %d changes, want %d", c.Plural, len(c.log)-before, c.changesATurn())
			}
		}
	}
	for i, v := range s.sent {
		var o struct {
			Kind     string
			Metadata struct{ Name, UID, ResourceVersion string }
		}
		if err := json.Unmarshal(v.render(nil), &o); err != nil {
			t.Fatalf("%s: %v", v.Plural, err)
		}
		if o.Kind != v.Kind || o.Metadata.Name == "" || o.Metadata.UID != v.uid || v.number != firstVersion+uint64(i) {
			t.Errorf("%s %d, state %d: %+v", v.Plural, v.id, v.state, o)
		}
		if _, ok := records[v.Plural]; !ok {
			t.Errorf("no cost of a record of %s", v.Plural)
		}
	}
}

package commit

import (
	"fmt"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/export/batching"
	"kubecdc/test/exporttest"
)

// Batches that violate an invariant are detected where invariants are verified.
func TestViolatedInvariants(t *testing.T) {
	object := func(op change.Op, uid, version string) change.Change {
		return change.Change{Stream: exporttest.Pods, Op: op, Namespace: "ns", Name: "a", UID: uid, ResourceVersion: change.ResourceVersion(version)}
	}
	positionAt := func(version string) []change.Position {
		return []change.Position{{Stream: exporttest.Pods.ID(), ResourceVersion: change.ResourceVersion(version)}}
	}
	gap := []change.Control{{Type: change.ControlGap, Stream: exporttest.Pods.ID(), Gap: &change.Gap{From: "9", To: "2"}}}
	first := change.Batch{Seq: 1, Positions: positionAt("9"), Changes: []change.Change{object(change.Create, "u", "9")}}
	for name, c := range map[string]struct {
		next change.Batch
		want string // empty if nothing is violated
	}{
		"a number is missing":       {change.Batch{Seq: 3}, "batch 3 follows batch 1"},
		"a position goes back":      {change.Batch{Seq: 2, Positions: positionAt("8")}, "from 9 back to 8"},
		"a change is older":         {change.Batch{Seq: 2, Changes: []change.Change{object(change.Update, "u", "8")}}, "at 8, after 9"},
		"a uid turns into another":  {change.Batch{Seq: 2, Changes: []change.Change{object(change.Update, "v", "10")}}, "while the log has u"},
		"a name comes back":         {change.Batch{Seq: 2, Changes: []change.Change{object(change.Delete, "u", "10"), object(change.Create, "v", "11")}}, ""},
		"after a gap all goes back": {change.Batch{Seq: 2, Controls: gap, Positions: positionAt("2"), Changes: []change.Change{object(change.Update, "u", "2")}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := newInvariants()
			v.verify(&batching.Prepared{Batch: &first}, 0)
			defer func() {
				if got := recover(); (got == nil) != (c.want == "") || got != nil && !strings.Contains(fmt.Sprint(got), c.want) {
					t.Errorf("it says %v, want %q", got, c.want)
				}
			}()
			v.verify(&batching.Prepared{Batch: &c.next}, 1)
		})
	}
}

package verify_test

import (
	"encoding/json"
	"testing"

	"kubecdc/change"
	"kubecdc/verify"
)

// The log's differences are repaired, or else the inventory's. What no record can undo is left out.
func TestRepairsAreOfWhatDiffers(t *testing.T) {
	live, held, other := &verify.Object{UID: "u", Version: "7"}, &verify.Object{UID: "u", Version: "5"}, &verify.Object{UID: "u", Version: "6"}
	all := []verify.Result{
		{Stream: pods.ID(), In: "topic", Differences: []verify.Difference{{Key: "shop/a", Kind: verify.Stale, Live: live, Held: held},
			{Key: "shop/b", Kind: verify.Extra, Held: held}, {Key: "shop/c", Kind: verify.Scattered, Live: live, Held: held}}},
		{Stream: pods.ID(), In: verify.InventoryName, Differences: []verify.Difference{{Key: "shop/a", Kind: verify.Stale, Live: live, Held: other},
			{Key: "shop/d", Kind: verify.Missing, Live: live}}},
		{Stream: "nodes", In: "topic", Differences: []verify.Difference{{Key: "n", Kind: verify.Missing, Live: live}}},
	}
	requests, err := verify.Repairs([]*change.Stream{pods}, all, 3)
	if err != nil || len(requests) != 1 || requests[0].Stream != "pods" || requests[0].Kind != change.SignalRepair {
		t.Fatalf("%+v, %v", requests, err)
	}
	want, err := json.Marshal([]change.Repair{
		{Key: "shop/a", Live: &change.Identity{UID: "u", ResourceVersion: "7"}, Held: &change.Identity{UID: "u", ResourceVersion: "5"}, After: 3},
		{Key: "shop/b", Held: &change.Identity{UID: "u", ResourceVersion: "5"}, After: 3},
		{Key: "shop/d", Live: &change.Identity{UID: "u", ResourceVersion: "7"}, Held: &change.Identity{UID: "u", ResourceVersion: "7"}, After: 3},
	})
	if err != nil || string(requests[0].Params) != string(want) {
		t.Errorf("%s, not %s (%v)", requests[0].Params, want, err)
	}
}

package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/verify"
)

// repairKeys is how many objects one signal repairs.
const repairKeys = 1000

// repair asks the exporters that run to write what differs, and waits until that is durable.
func (v *verification) repair(ctx context.Context, all []verify.Result, after int64) error {
	var requests []checkpoint.Signal
	for _, s := range v.streams {
		for chunk := range slices.Chunk(repairsOf(s.ID(), all, after), repairKeys) {
			params, err := json.Marshal(chunk)
			if err != nil {
				return err
			}
			requests = append(requests, checkpoint.Signal{Kind: change.SignalRepair, Stream: s.ID(), Params: params})
		}
	}
	return v.ask(ctx, requests, true)
}

// repaired is the last signal up to which all repairs are in the log. What another command asks for later is not written twice.
func (v *verification) repaired(ctx context.Context) (last int64, err error) {
	if v.store == nil {
		return 0, errNoRepair
	}
	all, err := v.store.Signals(ctx, false)
	for _, g := range all {
		if g.Kind == change.SignalRepair && !g.State.Ended() {
			break
		}
		last = g.ID
	}
	return last, err
}

// repairsOf joins what differs in the copies of a stream. What the log has is the same as the cluster's if only the inventory
// differs.
func repairsOf(stream change.StreamID, all []verify.Result, after int64) []change.Repair {
	byKey := map[string]*change.Repair{}
	for i, r := range all {
		if r.Stream != stream {
			continue
		}
		for _, d := range r.Differences {
			if byKey[d.Key] != nil || d.Kind == verify.Apart {
				continue // the log's comes first; no record can undo another one on another partition
			}
			repair := &change.Repair{Key: d.Key, Live: identityOf(d.Live), Held: identityOf(d.Live), After: after}
			if all[i].In != inventoryName {
				repair.Held = identityOf(d.Held)
			}
			byKey[d.Key] = repair
		}
	}
	var repairs []change.Repair
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		repairs = append(repairs, *byKey[key])
	}
	return repairs
}

func identityOf(o *verify.Object) *change.Identity {
	if o == nil {
		return nil
	}
	return &change.Identity{UID: o.UID, ResourceVersion: o.Version}
}

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
func (v *verification) repair(ctx context.Context, all []verify.Result) error {
	if v.store == nil {
		return errNoRepair
	}
	var requests []checkpoint.Signal
	for _, s := range v.streams {
		for chunk := range slices.Chunk(repairsOf(s.ID(), all), repairKeys) {
			params, err := json.Marshal(chunk)
			if err != nil {
				return err
			}
			requests = append(requests, checkpoint.Signal{Kind: change.SignalRepair, Stream: s.ID(), Params: params})
		}
	}
	return v.ask(ctx, requests, true)
}

// repairsOf joins what differs in the copies of a stream. What the log has is the same as the cluster's if only the inventory
// differs.
func repairsOf(stream change.StreamID, all []verify.Result) []change.Repair {
	byKey := map[string]*change.Repair{}
	for i, r := range all {
		if r.Stream != stream {
			continue
		}
		for _, d := range r.Differences {
			if byKey[d.Key] != nil || d.Kind == verify.Apart {
				continue // the log's comes first; no record can undo another one on another partition
			}
			repair := &change.Repair{Key: d.Key, Live: identityOf(d.Live), Held: identityOf(d.Live)}
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

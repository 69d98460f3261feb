package verify

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// repairKeys is how many objects one signal repairs.
const repairKeys = 1000

// Repairs are the signals that ask the exporters which run to write what differs. after is what Repaired returned before.
func Repairs(streams []*change.Stream, all []Result, after int64) (requests []checkpoint.Signal, err error) {
	for _, s := range streams {
		for chunk := range slices.Chunk(repairsOf(s.ID(), all, after), repairKeys) {
			params, err := json.Marshal(chunk)
			if err != nil {
				return nil, err
			}
			requests = append(requests, checkpoint.Signal{Kind: change.SignalRepair, Stream: s.ID(), Params: params})
		}
	}
	return requests, nil
}

// Repaired is the last signal up to which all repairs are in the log. What another command asks for later is not written twice.
func Repaired(ctx context.Context, store checkpoint.Store) (last int64, err error) {
	all, err := store.Signals(ctx, false)
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
func repairsOf(stream change.StreamID, all []Result, after int64) []change.Repair {
	byKey := map[string]*change.Repair{}
	for i, r := range all {
		if r.Stream != stream {
			continue
		}
		for _, d := range r.Differences {
			if byKey[d.Key] != nil || d.Kind == Apart {
				continue // the log's comes first; no record can undo another one on another partition
			}
			repair := &change.Repair{Key: d.Key, Live: d.Live.identity(), Held: d.Live.identity(), After: after}
			if all[i].In != InventoryName {
				repair.Held = d.Held.identity()
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

func (o *Object) identity() *change.Identity {
	if o == nil {
		return nil
	}
	return &change.Identity{UID: o.UID, ResourceVersion: o.Version}
}

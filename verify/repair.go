package verify

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// repairKeys is the number of objects that one signal repairs.
const repairKeys = 1000

// Repairs returns the signals that ask the running exporters to write what differs. after is the result of Repaired before the
// comparison.
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

// Repaired returns the id of the last signal such that no repair up to it is unfinished, or 0. With this value (Repair.After), an
// exporter does not repeat the repair of another command.
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

// repairsOf joins the differences of a stream's copies. If only the inventory differs, the log equals the API server.
func repairsOf(stream change.StreamID, all []Result, after int64) []change.Repair {
	byKey := map[string]*change.Repair{}
	for i, r := range all {
		if r.Stream != stream {
			continue
		}
		for _, d := range r.Differences {
			if byKey[d.Key] != nil || d.Kind == Scattered {
				continue // the log's difference comes first; a record can't undo one on another partition
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

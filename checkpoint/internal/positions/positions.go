// Package positions writes the positions of the history as stores keep them: a JSON object by stream, so that those of
// several commits can be merged.
package positions

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"kubecdc/change"
)

// Encode gives {"stream":{position}}.
func Encode(list []change.Position) []byte {
	byStream := make(map[change.StreamID]change.Position, len(list))
	for _, p := range list {
		byStream[p.Stream] = p
	}
	b, _ := json.Marshal(byStream) // strings and times only: can't fail
	return b
}

// Decode gives the positions in the order of their streams.
func Decode(b []byte) ([]change.Position, error) {
	var byStream map[change.StreamID]change.Position
	if err := json.Unmarshal(b, &byStream); err != nil {
		return nil, fmt.Errorf("decode the positions of a checkpoint: %w", err)
	}
	list := make([]change.Position, 0, len(byStream))
	for _, stream := range slices.Sorted(maps.Keys(byStream)) {
		list = append(list, byStream[stream])
	}
	return list, nil
}

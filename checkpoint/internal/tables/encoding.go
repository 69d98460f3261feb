package tables

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"kubecdc/change"
)

// EncodePositions returns {"stream":{position}}, JSON in which the positions of several commits can be merged.
func EncodePositions(list []change.Position) json.RawMessage {
	byStream := make(map[change.StreamID]change.Position, len(list))
	for _, p := range list {
		byStream[p.Stream] = p
	}
	b, _ := json.Marshal(byStream) // can't fail: strings and times only
	return b
}

// DecodePositions returns the positions ordered by stream.
func DecodePositions(b []byte) ([]change.Position, error) {
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

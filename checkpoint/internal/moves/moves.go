// Package moves writes the positions of the history as stores keep them: a JSON object by stream, so that those of
// several commits can be merged.
package moves

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"kubecdc/change"
)

// Encode gives {"stream":{position}}, without floors: those are for who goes on from a position.
func Encode(positions []change.Position) []byte {
	byStream := make(map[string]change.Position, len(positions))
	for _, p := range positions {
		p.Floors = nil
		byStream[p.Stream] = p
	}
	b, _ := json.Marshal(byStream) // strings and times only: can't fail
	return b
}

// Decode gives the positions in the order of their streams.
func Decode(b []byte) ([]change.Position, error) {
	var byStream map[string]change.Position
	if err := json.Unmarshal(b, &byStream); err != nil {
		return nil, fmt.Errorf("decode the positions of a checkpoint: %w", err)
	}
	positions := make([]change.Position, 0, len(byStream))
	for _, stream := range slices.Sorted(maps.Keys(byStream)) {
		positions = append(positions, byStream[stream])
	}
	return positions, nil
}

// EncodeFloors gives {"namespace":"resourceVersion"}; nil for none, which is a null in a table.
func EncodeFloors(floors change.Floors) *string {
	if len(floors) == 0 {
		return nil
	}
	b, _ := json.Marshal(floors) // strings only: can't fail
	text := string(b)
	return &text
}

// DecodeFloors reads them.
func DecodeFloors(text *string) (floors change.Floors, err error) {
	if text == nil {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(*text), &floors); err != nil {
		return nil, fmt.Errorf("decode the floors of a position: %w", err)
	}
	return floors, nil
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"kubecdc/change"
)

// replay reads a topic into a map, as a consumer does that wants the current state.
func replay(records []*record) (map[string]object, error) {
	state := map[string]object{}
	for _, r := range records {
		if r.op == "" || r.op == "d" {
			delete(state, r.key)
			continue
		}
		_, after, err := r.images()
		if err != nil {
			return nil, err
		}
		state[r.key] = after
	}
	return state, nil
}

// compareState compares that map with what the API server holds, field by field.
func (t *story) compareState(ctx context.Context, k kind, records []*record) (objects int, differences []string, err error) {
	state, err := replay(records)
	if err != nil {
		return 0, nil, err
	}
	live, err := t.cluster.objects(ctx, k)
	if err != nil {
		return 0, nil, err
	}
	for i := range live {
		key := change.ObjectKey(live[i].GetNamespace(), live[i].GetName())
		same, err := equal(live[i].Object, state[key])
		if err != nil {
			return 0, nil, err
		}
		if !same {
			differences = append(differences, fmt.Sprintf("%s %s is not the same in the topic", k, key))
		}
		delete(state, key)
	}
	for key := range state {
		differences = append(differences, fmt.Sprintf("%s %s is in the topic, but not in the cluster", k, key))
	}
	return len(live), differences, nil
}

// equal compares two objects as JSON.
func equal(a, b object) (bool, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return false, err
	}
	var again object
	err = json.Unmarshal(text, &again)
	return reflect.DeepEqual(again, b), err
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// describe summarizes a record: the field that changed, or the object that was created or deleted.
func describe(r *record) string {
	var before, after object
	if err := errors.Join(unmarshal(r.Before, &before), unmarshal(r.After, &after)); err != nil {
		return err.Error()
	}
	was, now := leaves(before), leaves(after)
	switch {
	case before == nil:
		return essence(now)
	case after == nil:
		return "was " + essence(was)
	}
	for _, path := range slices.Sorted(maps.Keys(now)) {
		if !reflect.DeepEqual(was[path], now[path]) {
			return fmt.Sprintf("%s: %s → %s", path, show(was[path]), show(now[path]))
		}
	}
	return "metadata only"
}

// unmarshal leaves a state that there is not as it is.
func unmarshal(text json.RawMessage, o *object) error {
	if text == nil {
		return nil
	}
	return json.Unmarshal(text, o)
}

// essence returns the most telling field of an object.
func essence(fields map[string]any) string {
	for _, path := range []string{"spec.item", "spec.replicas", "spec.containers.0.image"} {
		if value, ok := fields[path]; ok {
			return path + ": " + show(value)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(fields)) {
		if strings.HasPrefix(path, "data.") {
			return path + ": " + show(fields[path])
		}
	}
	return ""
}

func show(value any) string {
	if value == nil {
		return "none"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// leaves are the fields of an object by their paths, without those that the server keeps for itself.
func leaves(o object) map[string]any {
	all := map[string]any{}
	walk(all, "", o)
	return all
}

func walk(all map[string]any, path string, value any) {
	if path == "metadata" {
		return
	}
	join := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	switch value := value.(type) {
	case object:
		for name, field := range value {
			walk(all, join(name), field)
		}
	case []any:
		for i, item := range value {
			walk(all, join(fmt.Sprint(i)), item)
		}
	default:
		all[path] = value
	}
}

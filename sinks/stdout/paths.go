package stdout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

type fields = map[string]json.RawMessage

// bookkeeping are fields that change with every write.
var bookkeeping = map[string]bool{"metadata.resourceVersion": true, "metadata.managedFields": true, "metadata.generation": true}

// changedPaths names the fields that differ, down to two levels: "spec.replicas", "data.key". It is nil if one of the
// images is not a JSON object.
func changedPaths(before, after []byte) []string {
	var paths []string
	for _, top := range changedFields(before, after) {
		var b, a fields
		if json.Unmarshal(before, &b) != nil || json.Unmarshal(after, &a) != nil {
			return nil
		}
		inner := changedFields(b[top], a[top])
		if len(inner) == 0 {
			paths = append(paths, top)
		}
		for _, name := range inner {
			if path := top + "." + name; !bookkeeping[path] {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// changedFields names, sorted, the fields whose bytes differ in two objects.
func changedFields(before, after []byte) []string {
	var b, a fields
	if json.Unmarshal(before, &b) != nil || json.Unmarshal(after, &a) != nil {
		return nil
	}
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool {
		return bytes.Equal(b[name], a[name])
	})
}

// summary names a few of the paths.
func summary(paths []string) string {
	const most = 4
	if len(paths) > most {
		return strings.Join(paths[:most], ", ") + fmt.Sprintf(" +%d", len(paths)-most)
	}
	return strings.Join(paths, ", ")
}

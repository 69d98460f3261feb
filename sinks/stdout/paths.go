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

// bookkeeping changes with every write and says nothing.
var bookkeeping = map[string]bool{"metadata.resourceVersion": true, "metadata.managedFields": true, "metadata.generation": true}

// changedPaths names the fields of two levels that differ: "spec.replicas", "data.key". Nil when one of the
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

// changedFields names, in order, the fields of two objects that are not the same bytes.
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

// summary is short whatever changed.
func summary(paths []string) string {
	const most = 4
	if len(paths) > most {
		return strings.Join(paths[:most], ", ") + fmt.Sprintf(" +%d", len(paths)-most)
	}
	return strings.Join(paths, ", ")
}

package difference

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"kubecdc/change"
)

// Operation is one operation of a JSON Patch (RFC 6902).
type Operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"` // a removal has none
}

// Patch returns a JSON Patch from one image of an object to another. A nil image stands for no object.
func Patch(before, after []byte) ([]Operation, error) {
	p := patching{budget: mostPairs}
	var old, now any
	err := cmp.Or(decodeExactly(change.OrNull(before), &old), decodeExactly(change.OrNull(after), &now))
	if err != nil {
		return nil, fmt.Errorf("compare two images of an object: %w", err)
	}
	p.values("", old, now)
	return p.operations, nil
}

// patching collects the operations that lead from one value to another.
type patching struct {
	budget
	operations []Operation
}

func (p *patching) add(op, path string, to any) {
	p.operations = append(p.operations, Operation{op, path, json.RawMessage(value(to))})
}

func (p *patching) remove(path string) {
	p.operations = append(p.operations, Operation{Op: "remove", Path: path})
}

func (p *patching) values(path string, old, now any) {
	switch a := old.(type) {
	case map[string]any:
		if b, ok := now.(map[string]any); ok {
			p.objects(path, a, b)
			return
		}
	case []any:
		if b, ok := now.([]any); ok {
			p.lists(path, a, b)
			return
		}
	}
	if !reflect.DeepEqual(old, now) {
		p.add("replace", path, now)
	}
}

// inPointer escapes a name for a JSON Pointer (RFC 6901).
var inPointer = strings.NewReplacer("~", "~0", "/", "~1")

func (p *patching) objects(path string, old, now map[string]any) {
	names := maps.Clone(old)
	maps.Copy(names, now)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, wasThere := old[name]
		b, isThere := now[name]
		switch memberPath := path + "/" + inPointer.Replace(name); {
		case !wasThere:
			p.add("add", memberPath, b)
		case !isThere:
			p.remove(memberPath)
		default:
			p.values(memberPath, a, b)
		}
	}
}

// lists goes from hunk to hunk. Items before a hunk are already as they will be. It replaces a list that is too long to be
// compared.
func (p *patching) lists(path string, old, now []any) {
	all, compared := p.hunks(encoded(old), encoded(now))
	if !compared {
		p.add("replace", path, now)
		return
	}
	itemPath := func(i int) string { return fmt.Sprintf("%s/%d", path, i) }
	for _, h := range all {
		both := min(h.old.len(), h.now.len())
		for i := range both {
			p.values(itemPath(h.now.from+i), old[h.old.from+i], now[h.now.from+i])
		}
		for range h.old.len() - both {
			p.remove(itemPath(h.now.from + both))
		}
		for i := h.now.from + both; i < h.now.to; i++ {
			p.add("add", itemPath(i), now[i])
		}
	}
}

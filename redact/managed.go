package redact

import (
	"encoding/json"
	"strconv"
	"strings"

	"kubecdc/internal/rawjson"
)

// owners is a rule for metadata.managedFields, which name an element of a list by the values of its keys, k:{"ip":"10.0.0.1"}, and an
// element of a set by its value, v:"x" (https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management).
var owners = &node{named: map[string]*node{"metadata": {named: map[string]*node{"managedFields": {through: true,
	named: map[string]*node{"fieldsV1": {do: hashNames}}}}}}}

// ownedFields copies a set of fields, with hashes in place of the values that the settings hide. They are the hashes that the fields
// themselves get, so an element is still found by its name. nodes are the rules for the value that the set is about; do is what
// becomes of the value as a whole.
func (w *walk) ownedFields(do action, nodes []*node, path []string) {
	if !w.AtObject() {
		w.Skip()
		return
	}
	for raw, more := w.First(); more; raw, more = w.Next() {
		name := rawjson.Name(raw)
		kind, text, _ := strings.Cut(name, ":")
		var step string
		var inner action
		var next []*node
		switch kind {
		case "f":
			step = text
			inner, next = members(nodes, text)
		case "k", "v", "i":
			inner, next = elements(nodes)
			if hashed := w.elementName(kind, text, max(do, inner), next, append(path, "")); hashed != "" && kind != "i" {
				w.rename(raw, kind+":"+hashed)
			}
		}
		w.ownedFields(max(do, inner), next, append(path, step))
	}
}

// elements are the rules for any element of an array.
func elements(nodes []*node) (do action, next []*node) {
	for _, n := range nodes {
		if n.through {
			next = append(next, n)
		}
		for name, found := range n.named {
			if _, err := strconv.Atoi(name); err == nil {
				do, next = max(do, found.do), append(next, found)
			}
		}
		if n.each != nil {
			do, next = max(do, n.each.do), append(next, n.each)
		}
	}
	return do, next
}

// elementName returns the name of an element without what is hidden; empty if nothing of it is.
func (w *walk) elementName(kind, text string, do action, nodes []*node, path []string) string {
	var keys map[string]json.RawMessage
	if kind == "v" || json.Unmarshal([]byte(text), &keys) != nil {
		if do == keep {
			return ""
		}
		return w.hashed(path, []byte(text))
	}
	changed := false
	for name, value := range keys {
		if hides, _ := members(nodes, name); max(do, hides) != keep {
			keys[name], changed = json.RawMessage(w.hashed(append(path, name), value)), true
		}
	}
	if !changed {
		return ""
	}
	named, _ := json.Marshal(keys) // each value is JSON: can't fail
	return string(named)
}

// hashed is the hash of a value at a path, as JSON.
func (w *walk) hashed(path []string, value []byte) string {
	before := w.path
	defer func() { w.path = before }()
	w.path = path
	hash := w.hash(hashJSON, value)
	if hash == "" {
		return string(value)
	}
	return `"` + hash + `"`
}

// rename writes another name in the place of a member's, which lies in raw.
func (w *walk) rename(raw []byte, name string) {
	start := cap(w.raw) - cap(raw)
	w.flush(start)
	quoted, _ := json.Marshal(name) // a string always can be
	w.out, w.copied = append(w.out, quoted[1:len(quoted)-1]...), start+len(raw)
}

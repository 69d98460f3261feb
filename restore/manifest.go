// Package restore makes of an object's earlier state the manifest that puts it back. It knows what servers and controllers set.
package restore

import (
	"fmt"
	"slices"
	"strings"

	"kubecdc/change"
	"kubecdc/internal/cells"
	"kubecdc/query"
	"kubecdc/redact"
)

// Plan is how an object gets the state that it had.
type Plan struct {
	Verb     string         // kubectl's: create, replace or delete, or empty if nothing differs
	Present  map[string]any // as a manifest has it, or nil
	Manifest map[string]any // for create and replace
	Left     []string       // paths that are not put back, since other programs set them
}

// Options is what the log and the settings know of other objects and of fields.
type Options struct {
	Scaled  bool               // an autoscaler sets the replicas
	Ignored []string           // paths whose updates the log leaves out
	Owner   func(Owner) string // the owner's present uid, or "" if it is gone
}

// Owner is an owner that an object names.
type Owner struct{ APIVersion, Kind, Name string }

// NewPlan compares an object's past state with its present state. A state is nil if the object did not exist. It returns an error
// if the log lacks a part of the past state.
func NewPlan(resource string, then, now *query.Object, o Options) (*Plan, error) {
	switch {
	case then == nil && now == nil:
		return &Plan{}, nil
	case then == nil:
		return &Plan{Verb: "delete"}, nil
	case redact.HashText.Match(then.Body):
		return nil, fmt.Errorf("%s/%s can't be put back: the log has hashes in place of its redacted values", resource, then.Name)
	case change.IsStub(then.Body):
		return nil, fmt.Errorf("%s/%s can't be put back: it was too large for the log", resource, then.Name)
	}
	was := cells.Decoded(then.Body)
	if was["kind"] == "PartialObjectMetadata" {
		return nil, fmt.Errorf("%s/%s can't be put back: the log has only its metadata", resource, then.Name)
	}
	p := &Plan{Verb: "create", Manifest: clean(was)}
	if now != nil {
		p.Verb, p.Present = "replace", clean(cells.Decoded(now.Body))
	}
	p.keepAll(resource, &o)
	p.setOwners(o.Owner)
	if now != nil && cells.Compact(p.Manifest) == cells.Compact(p.Present) {
		p.Verb, p.Manifest = "", nil
	}
	return p, nil
}

// clean removes what no manifest has.
func clean(object map[string]any) map[string]any {
	WithoutServerSet(object)
	for _, path := range []string{"metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds"} {
		remove(object, path)
	}
	return object
}

// keepAll gives the manifest what others set: the present value, or none for an object that is gone.
func (p *Plan) keepAll(resource string, o *Options) {
	paths := slices.Clone(set[resource])
	if o.Scaled {
		paths = append(paths, "spec.replicas")
	}
	if p.Present != nil {
		paths = append(paths, o.Ignored...)
	}
	for _, path := range paths {
		p.keep(path)
	}
}

func (p *Plan) keep(path string) {
	was, existed := member(p.Manifest, path)
	now, exists := member(p.Present, path)
	switch {
	case p.Present == nil && path == "spec.replicas", was == "None": // a headless Service has no address to be given
		return
	case exists:
		assign(p.Manifest, path, now)
	case existed:
		remove(p.Manifest, path)
	}
	if (existed || exists) && (p.Present == nil || cells.Compact(was) != cells.Compact(now)) {
		p.Left = append(p.Left, strings.ReplaceAll(path, "\x00", "."))
	}
}

// setOwners names owners by their present uid. The garbage collector deletes an object at once whose owners are all gone.
func (p *Plan) setOwners(presentUID func(Owner) string) {
	all, _ := member(p.Manifest, "metadata.ownerReferences")
	list, _ := all.([]any)
	var alive []any
	for _, each := range list {
		owner, _ := each.(map[string]any)
		if uid := presentUID(Owner{cells.TextOf(owner["apiVersion"]), cells.TextOf(owner["kind"]),
			cells.TextOf(owner["name"])}); uid != "" {
			owner["uid"] = uid
			alive = append(alive, owner)
		}
	}
	switch {
	case len(alive) > 0:
		assign(p.Manifest, "metadata.ownerReferences", alive)
	case len(list) > 0:
		remove(p.Manifest, "metadata.ownerReferences")
		p.Left = append(p.Left, "metadata.ownerReferences")
	}
}

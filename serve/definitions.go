package serve

import (
	"context"
	"maps"
	"sync"
	"weak"

	"kubecdc/change"
	"kubecdc/query"
)

// definitions shares the resources of CRDs among views: moments differ in few of them, and schemas are large. The garbage
// collector can still remove a resource that no view has.
type definitions struct {
	mu        sync.Mutex
	resources map[definitionID]weak.Pointer[served]
	most      int // at this many entries, the collected ones are removed
}

// definitionID identifies a CRD, and the version in which its resource was logged.
type definitionID struct {
	uid     string
	version change.ResourceVersion
	logged  string
}

// custom adds the resources that the CRDs of a view define. It reads the bodies of those that no other view has.
func (all *views) custom(ctx context.Context, v *view, found map[string]*served) error {
	var unknown []query.Within
	logged := maps.Clone(found)
	err := all.each(ctx, v, query.Within{NoBodies: true}, func(crd *query.Object) {
		if r := all.definitions.known(crd, logged); r != nil {
			found[r.ID()] = r
		} else {
			unknown = append(unknown, query.Within{Name: crd.Name})
		}
	})
	if len(unknown) > 10 {
		unknown = []query.Within{{}} // one reading of all takes less time
	}
	for _, part := range unknown {
		if err == nil {
			err = all.each(ctx, v, part, func(crd *query.Object) {
				if r := all.definitions.resourceOf(crd, logged); r != nil {
					found[r.ID()] = r
				}
			})
		}
	}
	return err
}

// each visits the objects of a view.
func (all *views) each(ctx context.Context, v *view, part query.Within, visit func(*query.Object)) error {
	for {
		read, err := all.page(ctx, v, part, objectsAtOnce)
		if err != nil {
			return err
		}
		for _, o := range read.Objects {
			visit(o)
		}
		if part.After = read.Next; part.After == "" {
			return nil
		}
	}
}

func idOf(crd *query.Object, logged map[string]*served) definitionID {
	id := definitionID{uid: crd.UID, version: crd.ResourceVersion}
	if r := logged[crd.Name]; r != nil { // a CRD has its resource's name
		id.logged = r.Version
	}
	return id
}

// known returns the resource that a CRD defines, if a view has it. logged are the resources that the log describes.
func (d *definitions) known(crd *query.Object, logged map[string]*served) *served {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.resources[idOf(crd, logged)].Value()
}

// resourceOf returns the resource that a CRD defines, or nil.
func (d *definitions) resourceOf(crd *query.Object, logged map[string]*served) *served {
	if r := d.known(crd, logged); r != nil {
		return r
	}
	r := customResource(crd.Body, logged)
	if r == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.resources == nil {
		d.resources = map[definitionID]weak.Pointer[served]{}
	}
	if d.resources[idOf(crd, logged)] = weak.Make(r); len(d.resources) > d.most {
		maps.DeleteFunc(d.resources, func(_ definitionID, r weak.Pointer[served]) bool { return r.Value() == nil })
		d.most = 2*len(d.resources) + 100
	}
	return r
}

package serve

import (
	"sync"
	"weak"

	"kubecdc/change"
	"kubecdc/query"
)

// definitions shares the resources of CRDs among views: moments differ in few of them, and schemas are large. It keeps none from being
// collected that no view has.
type definitions struct {
	mu    sync.Mutex
	known map[definitionID]weak.Pointer[served]
	most  int // how many are known when those that were collected are removed
}

// definitionID identifies a CRD, and the version in which its resource was logged.
type definitionID struct {
	uid     string
	version change.ResourceVersion
	logged  string
}

// resourceOf returns the resource that a CRD defines, or nil. logged are the resources that the log describes.
func (d *definitions) resourceOf(crd *query.Object, logged map[string]*served) *served {
	id := definitionID{uid: crd.UID, version: crd.ResourceVersion}
	if r := logged[crd.Name]; r != nil { // a CRD has its resource's name
		id.logged = r.Version
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.known[id].Value(); r != nil {
		return r
	}
	r := customResource(crd.Body, logged)
	if r == nil {
		return nil
	}
	if d.known == nil {
		d.known = map[definitionID]weak.Pointer[served]{}
	}
	if d.known[id] = weak.Make(r); len(d.known) > d.most {
		for id, r := range d.known {
			if r.Value() == nil {
				delete(d.known, id)
			}
		}
		d.most = 2*len(d.known) + 100
	}
	return r
}

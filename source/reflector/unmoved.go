package reflector

import (
	"context"
	"fmt"
	"hash/maphash"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/source/apiclient"
)

// kube-apiserver gives each change a resourceVersion of its own. An aggregated API server may not do that:
//
// 1. A DELETED event may have the version that the object had (https://github.com/kubernetes/kubernetes/issues/58545). If the log
// has the object at that version, it is gone, wherever the cursor is. A repeat of an earlier event must not bring it back
// (endings).
//
// 2. A MODIFIED event at the log's version is a repeat if its body is the log's. With another body the versions do not move, so
// nobody knows the order of the changes. The stream is then unsupported until it is started again.

// endings maps the uid of an object to its last version. It has an object if its deletion had no newer version.
type endings map[string]change.ResourceVersion

// mostEndings limits the memory for a server whose deletions all have old versions.
const mostEndings = 2000

func (x *endings) add(o *apiclient.Object) {
	if *x == nil || len(*x) >= mostEndings {
		*x = endings{}
	}
	(*x)[o.UID] = o.Version
}

// has reports whether an object's state is not newer than its end.
func (x endings) has(o *apiclient.Object) bool {
	version, ended := x[o.UID]
	return ended && o.Version.Compare(version) <= 0
}

// unversioned has the hashes of events without a version that are dead letters.
type unversioned struct {
	seed   maphash.Seed
	events map[uint64]struct{}
}

const mostUnversioned = 10_000

// repeats reports whether an event was delivered before, or too many were to remember one more.
func (x *unversioned) repeats(line []byte) bool {
	if x.events == nil {
		x.seed, x.events = maphash.MakeSeed(), map[uint64]struct{}{}
	}
	hash := maphash.Bytes(x.seed, line)
	if _, found := x.events[hash]; found || len(x.events) >= mostUnversioned {
		return true
	}
	x.events[hash] = struct{}{}
	return false
}

// recent has the hashes of the states that were emitted last, unless kube-apiserver serves the resource. The checkpoint has the
// others.
type recent struct {
	seed   maphash.Seed
	states [64]struct{ id, body uint64 }
}

// find returns the place of a state, and its hashes.
func (x *recent) find(r *change.Resource, key string, version change.ResourceVersion, body []byte) (place int, id, hash uint64) {
	if x.seed == (maphash.Seed{}) {
		x.seed = maphash.MakeSeed()
	}
	id = maphash.String(x.seed, key) ^ maphash.String(x.seed, string(version))<<1 ^ maphash.String(x.seed, r.Version)<<2
	return int(id % uint64(len(x.states))), id, maphash.Bytes(x.seed, body)
}

func (x *recent) add(r *change.Resource, key string, version change.ResourceVersion, body []byte) {
	place, id, hash := x.find(r, key, version, body)
	x.states[place].id, x.states[place].body = id, hash
}

// unmovedError reports an object that has changed at a constant resourceVersion.
type unmovedError struct {
	key     string
	version change.ResourceVersion
}

func (e *unmovedError) Error() string {
	return fmt.Sprintf("object %q has changed, and its resourceVersion is still %s", e.key, e.version)
}

func (e *unmovedError) Is(target error) bool { return target == apiclient.ErrUnsupported }

// checkMoved takes a MODIFIED event of an object that the log has at this version. It returns an *unmovedError if the log has
// another body. kube-apiserver sends no such event, but a proxy may repeat one.
func (w *watching) checkMoved(ctx context.Context, o apiclient.Object) error {
	r := &w.stream.Resource
	if o.Prepare(w.options.Redactor, r) != nil {
		return nil
	}
	place, id, hash := w.recent.find(r, o.Key(), o.Version, o.Raw)
	switch last := &w.recent.states[place]; {
	case last.id == id && last.body == hash:
		return nil
	case last.id == id:
		w.unmoved = &unmovedError{o.Key(), o.Version}
	case w.options.Stored:
		err := w.inventory.Bodies(ctx, w.ID(), []string{o.Key()}, func(key string, body []byte) error {
			stored, err := apiclient.ParseObject(body)
			sameType := string(rawjson.Member(body, "apiVersion")) == string(rawjson.Member(o.Raw, "apiVersion"))
			if err == nil && sameType && !change.IsStub(body) && stored.Version == o.Version && !rawjson.Same(body, o.Raw) {
				w.unmoved = &unmovedError{key, o.Version}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return w.unmoved
}

// selects reports whether an object may leave the stream's collection, and come back, without being deleted.
func (r *Reflector) selects() bool {
	return r.stream.LabelSelector != "" || r.stream.FieldSelector != ""
}

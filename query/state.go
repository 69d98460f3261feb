package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/s2"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Question asks for the state of resources, or of a part of them.
type Question struct {
	Resources []string // ids; empty: all that the log has
	Namespace string   // empty: all
	Name      string   // one object
	At        Target
	Progress  func(read, of int64)
}

// State is what resources were at a moment.
type State struct {
	Coverage []Coverage
	Missing  []string // all that the answer may lack; empty: it is complete
	objects  map[string]*object
}

// Object is one object of a state.
type Object struct {
	Resource        string
	Namespace, Name string
	UID             string
	ResourceVersion change.ResourceVersion
	Logged          time.Time // of the record that it comes from
	Body            []byte    // the API server's own bytes
}

// object is what the records of one object say about the moment. Only one body is held, packed.
type object struct {
	resource        string
	namespace, name string
	uid             string
	version         change.ResourceVersion
	logged          time.Time
	body            []byte // packed; nil: it did not exist
	known           bool   // by a record from before the moment
	later           bool   // a record from after the moment was seen
	doubt           string // why the body may not be what it was
}

// folder keeps the last state of each object by the moment.
type folder struct {
	stories  *stories
	strange  map[change.StreamID]bool // streams without control records
	cut      *sinks.Cut               // nil: the moment is a resourceVersion of each stream
	versions map[change.StreamID]change.ResourceVersion
	objects  map[string]*object
}

// ReadState reads all records of the resources. Objects whose last record by the moment is not kept any more are taken from
// the before-image of the next one.
func ReadState(ctx context.Context, r sinks.Reader, q Question) (*State, error) {
	at, err := resolve(ctx, r, q.At)
	if err != nil {
		return nil, err
	}
	s, err := readStories(ctx, r, q.Resources, at)
	if err != nil {
		return nil, err
	}
	f := &folder{stories: s, versions: map[change.StreamID]change.ResourceVersion{}, objects: map[string]*object{},
		strange: map[change.StreamID]bool{}}
	state := &State{objects: f.objects}
	if err := f.aim(ctx, r, at); err != nil {
		return nil, err
	}
	f.cover(state, q.Namespace)
	err = r.Changes(ctx, sinks.Query{Resources: q.Resources, Namespace: q.Namespace, Name: q.Name, Progress: q.Progress}, f.add)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(f.strange)) {
		state.Missing = append(state.Missing, string(id)+": the log has no control record of it any more, so nothing says when its changes were complete")
	}
	for _, key := range slices.Sorted(maps.Keys(f.objects)) {
		if o := f.objects[key]; o.doubt != "" {
			state.Missing = append(state.Missing, o.resource+" "+change.ObjectKey(o.namespace, o.name)+": "+o.doubt)
		}
	}
	return state, nil
}

// cover tells how far the state is complete.
func (f *folder) cover(state *State, namespace string) {
	s := f.stories
	for _, id := range slices.Sorted(maps.Keys(s.streams)) {
		if ns := change.ParseStream(id).Namespace; ns != "" && namespace != "" && ns != namespace {
			continue
		}
		c := s.coverage(s.streams[id])
		f.versions[id] = c.At
		state.Coverage, state.Missing = append(state.Coverage, c), append(state.Missing, c.Missing...)
	}
}

// aim finds the cut of a target that is a point of the log.
func (f *folder) aim(ctx context.Context, r sinks.Reader, at Target) (err error) {
	var cut sinks.Cut
	switch {
	case at.Version != "" || !at.Happened.IsZero():
		return nil
	case at == Target{}:
		cut, err = r.End(ctx)
	default:
		cut, err = r.At(ctx, at.Logged)
	}
	f.cut = &cut
	return err
}

func (f *folder) add(l *sinks.Logged) error {
	resource := change.ResourceOf(l.Stream.ID()).ID()
	key := resource + "\x00" + l.Change.Key()
	o := f.objects[key]
	if o == nil {
		o = &object{resource: resource, namespace: strings.Clone(l.Namespace), name: strings.Clone(l.Name)}
		f.objects[key] = o
	}
	if o.later {
		return nil
	}
	gap := f.gapOf(l)
	if f.stories.streams[l.Stream.ID()] == nil {
		f.strange[l.Stream.ID()] = true
	}
	if !f.by(l, gap) {
		if o.next(l); gap != nil && f.cut == nil && gap.From.Compare(f.versions[l.Stream.ID()]) < 0 {
			o.doubt = fmt.Sprintf("it changed (%s) at an unknown resourceVersion between %s and %s", l.Op, gap.From, gap.To)
		}
		return nil
	}
	o.known, o.doubt = true, ""
	if o.set(l, l.After); l.DeadLetter != "" && l.Op != change.Delete {
		o.doubt = "the topic has only a stub of it; the dead-letter topic has the record under " + l.DeadLetter
	}
	return nil
}

// set takes over an image as the object's state; nil: it did not exist.
func (o *object) set(l *sinks.Logged, image []byte) {
	o.uid, o.version, o.logged, o.body = l.UID, l.ResourceVersion, l.Logged, nil
	if image != nil {
		o.body = s2.Encode(nil, image)
	}
}

// next takes the first record after the moment. Its before-image is what the object was, if no older record tells that.
func (o *object) next(l *sinks.Logged) {
	o.later = true
	switch {
	case o.known || l.Op == change.Create || l.Op == change.Read:
	case l.Before != nil:
		o.set(l, l.Before)
		o.version = versionOf(l.Before)
	default:
		o.doubt = "its state is not in the log any more, and the next change has no before-image"
	}
}

// gapOf returns the gap in which a change was inferred; nil if it was not.
func (f *folder) gapOf(l *sinks.Logged) *change.Gap {
	if !l.Inferred {
		return nil
	}
	if st := f.stories.streams[l.Stream.ID()]; st != nil {
		for i := range st.gaps {
			if st.gaps[i].ID == l.Gap {
				return &st.gaps[i]
			}
		}
	}
	return nil
}

// by reports whether a change is from before the moment or of it. An inferred deletion has the last known version of its
// object: it happened at an unknown version of its gap, so it counts from the gap's end on.
func (f *folder) by(l *sinks.Logged, gap *change.Gap) bool {
	if f.cut != nil {
		return f.cut.Has(l)
	}
	at := f.versions[l.Stream.ID()]
	if gap != nil && l.Op == change.Delete {
		return gap.To.Compare(at) <= 0
	}
	return l.ResourceVersion.Compare(at) <= 0
}

// Len is the number of objects.
func (s *State) Len() (n int) {
	for _, o := range s.objects {
		if o.body != nil {
			n++
		}
	}
	return n
}

// Objects visits the objects by resource, namespace and name. An object is valid until visit returns.
func (s *State) Objects(visit func(*Object) error) error {
	var body []byte
	for _, o := range slices.SortedFunc(maps.Values(s.objects), compareObjects) {
		if o.body == nil {
			continue
		}
		var err error
		if body, err = s2.Decode(body[:cap(body)], o.body); err != nil {
			return fmt.Errorf("unpack %s: %w", o.name, err)
		}
		if err := visit(&Object{o.resource, o.namespace, o.name, o.uid, o.version, o.logged, body}); err != nil {
			return err
		}
	}
	return nil
}

func compareObjects(a, b *object) int {
	return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

// Namespaced reports whether the objects of a resource are in namespaces, by the first change that the log has of it.
func Namespaced(ctx context.Context, r sinks.Reader, resource string) (namespaced bool, err error) {
	err = r.Changes(ctx, sinks.Query{Resources: []string{resource}, NoBodies: true}, func(l *sinks.Logged) error {
		namespaced = l.Namespace != ""
		return errStop
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return namespaced, err
}

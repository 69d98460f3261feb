package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
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
	Progress  func(read, of int64)
}

// State is what resources were at a moment.
type State struct {
	At       Target
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

// ReadStates reads all records of the resources once, and gives what they were at each moment. Objects whose last record by a
// moment is not kept any more are taken from the before-image of the next one.
func ReadStates(ctx context.Context, r sinks.Reader, q Question, moments ...Target) ([]*State, error) {
	var states []*State
	var folders []*folder
	for _, at := range moments {
		f, state, err := newFolder(ctx, r, q, at)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		states, folders = append(states, state), append(folders, f)
	}
	err := r.Changes(ctx, sinks.Query{Resources: q.Resources, Namespace: q.Namespace, Name: q.Name, Progress: q.Progress},
		func(l *sinks.Logged) error {
			record := &record{Logged: l}
			for _, f := range folders {
				f.add(record)
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	for i, f := range folders {
		f.doubts(states[i], q.Namespace)
	}
	return states, nil
}

func newFolder(ctx context.Context, r sinks.Reader, q Question, moment Target) (*folder, *State, error) {
	at, err := resolve(ctx, r, moment)
	if err != nil {
		return nil, nil, err
	}
	s, err := readStories(ctx, r, q.Resources, at)
	if err != nil {
		return nil, nil, err
	}
	f := &folder{stories: s, versions: map[change.StreamID]change.ResourceVersion{}, objects: map[string]*object{},
		strange: map[change.StreamID]bool{}}
	if err := f.aim(ctx, r, at); err != nil {
		return nil, nil, err
	}
	state := &State{At: moment, objects: f.objects}
	f.cover(state, q.Namespace)
	return f, state, nil
}

// doubts adds what is not known of single objects to what a state may lack.
func (f *folder) doubts(state *State, namespace string) {
	if len(state.Coverage) == 0 && len(f.strange) == 0 {
		state.Missing = append(state.Missing, f.stories.nothing(namespace))
	}
	for _, id := range slices.Sorted(maps.Keys(f.strange)) {
		state.Missing = append(state.Missing, string(id)+": the log has no control record of it any more, so nothing says from where on "+
			"its changes are complete")
	}
	for _, key := range slices.Sorted(maps.Keys(f.objects)) {
		if o := f.objects[key]; o.doubt != "" {
			state.Missing = append(state.Missing, o.resource+" "+change.ObjectKey(o.namespace, o.name)+": "+o.doubt)
		}
	}
}

// record is a change whose images are packed once, for all states that have them.
type record struct {
	*sinks.Logged
	before, after []byte // packed; nil: not yet
}

func packed(image []byte, once *[]byte) []byte {
	if image != nil && *once == nil {
		*once = s2.Encode(nil, image)
	}
	return *once
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

func (f *folder) add(r *record) {
	resource := change.ResourceOf(r.Stream.ID()).ID()
	key := resource + "\x00" + r.Change.Key()
	o := f.objects[key]
	if o == nil {
		o = &object{resource: resource, namespace: strings.Clone(r.Namespace), name: strings.Clone(r.Name)}
		f.objects[key] = o
	}
	if o.later {
		return
	}
	if f.stories.streams[r.Stream.ID()] == nil {
		f.strange[r.Stream.ID()] = true
	}
	gap := f.gapOf(r.Logged)
	if !f.by(r.Logged, gap) {
		if o.next(r); gap != nil && f.cut == nil && gap.From.Compare(f.versions[r.Stream.ID()]) < 0 {
			o.doubt = fmt.Sprintf("it was %s at an unknown resourceVersion between %s and %s", done[r.Op], gap.From, gap.To)
		}
		return
	}
	o.known, o.doubt = true, ""
	if o.set(r, packed(r.After, &r.after)); r.DeadLetter != "" && r.Op != change.Delete {
		o.doubt = "the topic has only a stub of it; the dead-letter topic has the record under " + r.DeadLetter
	}
}

var done = map[change.Op]string{change.Create: "created", change.Update: "updated", change.Delete: "deleted", change.Read: "listed"}

// set takes over a packed image as the object's state; nil: it did not exist.
func (o *object) set(r *record, body []byte) {
	o.uid, o.version, o.logged, o.body = r.UID, r.ResourceVersion, r.Logged.Logged, body
}

// next takes the first record after the moment. Its before-image is what the object was, if no older record tells that.
func (o *object) next(r *record) {
	o.later = true
	switch {
	case o.known || r.Op == change.Create || r.Op == change.Read:
	case r.Before != nil:
		o.set(r, packed(r.Before, &r.before))
		o.version = versionOf(r.Before)
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
	return Differences(&State{}, s, func(_, o *Object) error { return visit(o) })
}

// Differences visits the objects that two states do not have alike, by resource, namespace and name. One of the two is nil if
// the object is in the other state alone, or is another object of that name. They are valid until visit returns.
func Differences(a, b *State, visit func(before, after *Object) error) error {
	keys := map[string]*object{}
	maps.Copy(keys, a.objects)
	maps.Copy(keys, b.objects)
	var buffers [2][]byte
	for key := range orderedKeys(keys) {
		before, after := a.objects[key].live(), b.objects[key].live()
		if before == nil && after == nil ||
			before != nil && after != nil && before.version == after.version && before.uid == after.uid {
			continue
		}
		x, err := before.unpack(&buffers[0])
		if err != nil {
			return err
		}
		y, err := after.unpack(&buffers[1])
		if err != nil {
			return err
		}
		if x != nil && y != nil && x.UID != y.UID {
			if err := visit(x, nil); err != nil {
				return err
			}
			x = nil
		}
		if err := visit(x, y); err != nil {
			return err
		}
	}
	return nil
}

// orderedKeys are the keys by resource, namespace and name.
func orderedKeys(objects map[string]*object) iter.Seq[string] {
	return slices.Values(slices.SortedFunc(maps.Keys(objects), func(a, b string) int { return compareObjects(objects[a], objects[b]) }))
}

// live is the object if it existed; else nil.
func (o *object) live() *object {
	if o == nil || o.body == nil {
		return nil
	}
	return o
}

func (o *object) unpack(buffer *[]byte) (*Object, error) {
	if o == nil {
		return nil, nil
	}
	var err error
	if *buffer, err = s2.Decode((*buffer)[:cap(*buffer)], o.body); err != nil {
		return nil, fmt.Errorf("unpack %s: %w", o.name, err)
	}
	return &Object{o.resource, o.namespace, o.name, o.uid, o.version, o.logged, *buffer}, nil
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

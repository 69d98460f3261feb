package query

import (
	"cmp"
	"context"
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
	sinks.Objects
	Progress func(read, of int64)
}

// State is what resources were at a moment.
type State struct {
	At       Target
	Coverage []Coverage
	Missing  []string // all that the answer may lack; empty: it is complete
	objects  map[string]*object
	labelled *sinks.Labelled // which objects are asked about
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
	phase           phase
	doubt           string          // why the body may not be what it was
	between         change.StreamID // the stream, if the state is newer than its position at the cut
}

// phase is how much is known of an object while its records are read.
type phase int

const (
	unread  phase = iota // no record from before the moment was read
	seen                 // the last record from before the moment that was read tells its state
	decided              // a record from after the moment was read: no other one counts
)

// stateReader keeps the last state of each object by the moment.
type stateReader struct {
	stories    *stories
	unrecorded map[change.StreamID]bool // streams without control records
	cut        *sinks.Cut               // nil: the moment is a resourceVersion of each stream
	versions   map[change.StreamID]change.ResourceVersion
	objects    map[string]*object
	whole      bool // the objects are all that there were at a cut: what is not among them did not exist
}

// ReadStates reads all records of the resources once, and gives what they were at each moment. Objects whose last record by a
// moment is not kept any more are taken from the before-image of the next one.
func ReadStates(ctx context.Context, r sinks.Reader, q Question, moments ...Target) ([]*State, error) {
	var states []*State
	var readers []*stateReader
	kept, err := r.Retained(ctx, q.Resources)
	if err != nil {
		return nil, err
	}
	labelled, err := q.Labelled()
	if err != nil {
		return nil, err
	}
	for _, at := range moments {
		f, state, err := newStateReader(ctx, r, q, kept, at)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		state.labelled = labelled
		states, readers = append(states, state), append(readers, f)
	}
	changes := q.Query()
	changes.Progress = q.Progress
	if err := fill(ctx, r, changes, readers...); err != nil {
		return nil, err
	}
	for i, f := range readers {
		f.doubts(states[i], q.Namespace)
	}
	return states, nil
}

func newStateReader(ctx context.Context, r sinks.Reader, q Question, kept map[string]sinks.Retained, moment Target) (*stateReader, *State, error) {
	at, err := resolve(ctx, r, moment)
	if err != nil {
		return nil, nil, err
	}
	cut, err := cutOf(ctx, r, at)
	if err != nil {
		return nil, nil, err
	}
	s, err := readStories(ctx, r, q.Resources, kept, at, cut)
	if err != nil {
		return nil, nil, err
	}
	f := &stateReader{stories: s, cut: cut, versions: map[change.StreamID]change.ResourceVersion{}, objects: map[string]*object{},
		unrecorded: map[change.StreamID]bool{}}
	state := &State{At: moment, objects: f.objects}
	f.cover(state, q.Namespace)
	if err := f.unserved(ctx, r, moment, state); err != nil {
		return nil, nil, err
	}
	return f, state, f.date(ctx, r, q, state)
}

// doubts tells what a state may lack: first that of which something is known, last the streams of which nothing is.
func (f *stateReader) doubts(state *State, namespace string) {
	for _, c := range state.Coverage {
		state.Missing = append(state.Missing, c.Missing...)
	}
	if len(state.Coverage) == 0 && len(f.unrecorded) == 0 {
		state.Missing = append(state.Missing, f.stories.nothing(namespace))
	}
	for _, id := range slices.Sorted(maps.Keys(f.unrecorded)) {
		state.Missing = append(state.Missing, string(id)+": the log has no control record of it any more, so nothing says from where on "+
			"its changes are complete")
	}
	between := map[change.StreamID]bool{}
	for _, o := range f.objects {
		between[o.between] = true
	}
	delete(between, "")
	for _, id := range slices.Sorted(maps.Keys(between)) {
		state.Missing = append(state.Missing, string(id)+": the log had only a part of what a list had found out, or a gap was recovered")
	}
	for _, key := range slices.Sorted(maps.Keys(f.objects)) {
		if o := f.objects[key]; o.doubt != "" {
			state.Missing = append(state.Missing, o.resource+" "+change.ObjectKey(o.namespace, o.name)+": "+o.doubt)
		}
	}
	for i := range state.Coverage {
		if c := &state.Coverage[i]; c.unlisted != "" {
			c.Missing, state.Missing = append(c.Missing, c.unlisted), append(state.Missing, c.unlisted)
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
func (f *stateReader) cover(state *State, namespace string) {
	s := f.stories
	for _, id := range slices.Sorted(maps.Keys(s.streams)) {
		if ns := change.ParseStream(id).Namespace; ns != "" && namespace != "" && ns != namespace {
			continue
		}
		c := s.coverage(s.streams[id])
		f.versions[id] = c.At
		state.Coverage = append(state.Coverage, c)
	}
}

// cutOf finds the cut of a target that is a point of the log; nil: it is none.
func cutOf(ctx context.Context, r sinks.Reader, at Target) (*sinks.Cut, error) {
	if at.Version != "" || !at.Happened.IsZero() {
		return nil, nil
	}
	cut, err := r.At(ctx, at.Logged)
	return &cut, err
}

func (f *stateReader) add(r *record) {
	st := f.stories.streams[r.Stream.ID()]
	o := f.object(r.Logged, st)
	if o == nil || o.phase == decided {
		return
	}
	if st == nil {
		f.unrecorded[r.Stream.ID()] = true
	}
	happened := f.orderOf(r.Logged, st)
	if happened != before {
		o.next(r)
		if happened == unknown {
			o.doubt = f.unknown(r.Logged, st)
		}
		return
	}
	o.phase, o.doubt = seen, ""
	if o.set(r, packed(r.After, &r.after)); r.DeadLetter != "" && r.Op != change.Delete {
		o.doubt = "the topic has only a stub of it; the dead-letter topic has the record under " + r.DeadLetter
	}
	o.between = ""
	if f.cut != nil && st != nil && f.apart(r.Logged, st) {
		o.between = st.stream
	}
}

// object is what is known of a change's object; nil: the change is from before the moment's era.
func (f *stateReader) object(l *sinks.Logged, st *story) *object {
	era := f.stories.when(st, l)
	if era < 0 { // the first list of the era has what there was still
		return nil
	}
	resource := change.ResourceOf(l.Stream.ID()).ID()
	key := resource + "\x00" + l.Change.Key()
	o := f.objects[key]
	if o == nil {
		o = &object{resource: resource, namespace: strings.Clone(l.Namespace), name: strings.Clone(l.Name)}
		if f.whole { // it did not exist at the cut
			o.phase = seen
		}
		f.objects[key] = o
	}
	if era > 0 {
		o.phase = decided
	}
	return o
}

// set takes over a packed image as the object's state; nil: it did not exist.
func (o *object) set(r *record, body []byte) {
	o.uid, o.version, o.logged, o.body = r.UID, r.ResourceVersion, r.Logged.Logged, body
}

// next takes the first record after the moment. Its before-image is what the object was, if no older record tells that.
func (o *object) next(r *record) {
	was := o.phase
	o.phase = decided
	switch {
	case was == seen || r.Op == change.Create || r.Op == change.Read:
	case r.Before != nil:
		o.set(r, packed(r.Before, &r.before))
		o.version = versionOf(r.Before)
	default:
		o.doubt = "its state is not in the log any more, and the next change has no before-image"
	}
}

// gapOf returns the gap in which a change was inferred; nil if it was not, or the gap was recovered whole.
func (st *story) gapOf(l *sinks.Logged) *gap {
	if !l.Inferred || st == nil {
		return nil
	}
	for i := range st.gaps {
		if st.gaps[i].ID == l.Gap {
			return &st.gaps[i]
		}
	}
	return nil
}

// order says whether a change happened before a moment.
type order int

const (
	before order = iota // before it, or then
	after
	unknown
)

// orderOf tells whether a change happened by the moment. An inferred change was found by comparing two states: a deletion has the last
// known version of its object, and happened at an unknown one up to the end of its gap, or until it was found.
func (f *stateReader) orderOf(l *sinks.Logged, st *story) order {
	if f.cut != nil {
		if f.cut.Has(l) {
			return before
		}
		return after
	}
	at, gap := f.versions[l.Stream.ID()], st.gapOf(l)
	known := l.ResourceVersion.Compare(at) <= 0
	switch {
	case gap != nil && l.Op == change.Delete && gap.To.Compare(at) <= 0:
		return before
	case gap != nil && gap.From.Compare(at) < 0 && (l.Op == change.Delete || !known):
		return unknown
	case gap != nil && l.Op == change.Delete:
		return after
	case l.Inferred && l.Op == change.Delete && known && st != nil:
		return f.found(l, st)
	case known || l.Op == change.Delete && !f.stories.target.Happened.IsZero() && st != nil && st.at.has(l): // when all was current again
		return before
	}
	return after
}

// found is by for a deletion that was inferred outside of a gap: by a snapshot or a repair, or since its resource is gone.
func (f *stateReader) found(l *sinks.Logged, st *story) order {
	e, _ := f.stories.eraOf(st)
	if e == nil {
		return unknown
	}
	ended := !e.removed.IsZero() && !e.last.has(l) // until then its object was there
	switch t := f.stories.target; {
	case !t.Happened.IsZero() && !l.Time.After(t.Happened):
		return before
	case ended && (t.Happened.IsZero() || !t.Happened.After(e.last.Time)):
		return after
	case t.Happened.IsZero() && (st.beyond.Version == "" || st.beyond.has(l)):
		return before
	}
	return unknown
}

// unknown says what is not known about a change.
func (f *stateReader) unknown(l *sinks.Logged, st *story) string {
	if gap := st.gapOf(l); gap != nil {
		return fmt.Sprintf("it was %s at an unknown resourceVersion between %s and %s", l.Op.Past(), gap.From, gap.To)
	}
	return fmt.Sprintf("it was %s at an unknown resourceVersion after %s, and before %s", l.Op.Past(), l.ResourceVersion,
		l.Time.UTC().Format(time.RFC3339))
}

// apart reports whether a change before the cut is not one of those up to the stream's position then.
func (f *stateReader) apart(l *sinks.Logged, st *story) bool {
	at := f.versions[st.stream]
	if l.Op == change.Delete {
		gap := st.gapOf(l)
		return gap != nil && gap.To.Compare(at) > 0
	}
	return l.ResourceVersion.Compare(at) > 0
}

// Objects visits the objects by resource, namespace and name. An object is valid until visit returns.
func (s *State) Objects(visit func(*Object) error) error {
	return Differences(&State{labelled: s.labelled}, s, func(_, o *Object) error { return visit(o) })
}

// has reports whether an object exists and is asked about.
func (s *State) has(o *Object) bool { return o != nil && s.labelled.Has(o.Body) }

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
		if !a.has(x) && !b.has(y) {
			continue
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

// Keys are the keys of the objects that existed, of a state of one resource: bytewise by namespace and name, as a list has them.
func (s *State) Keys() (keys []string) {
	for key, o := range s.objects {
		if o.live() != nil {
			_, key, _ = strings.Cut(key, "\x00")
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Object returns one object of a state of one resource; nil: it did not exist.
func (s *State) Object(resource, key string) (*Object, error) {
	var own []byte
	return s.objects[resource+"\x00"+key].live().unpack(&own)
}

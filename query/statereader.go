package query

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/s2"

	"kubecdc/change"
	"kubecdc/sinks"
)

// stateReader keeps the last state of each object by the moment.
type stateReader struct {
	stories    *stories
	unrecorded map[change.StreamID]bool // streams without control records
	cut        *sinks.Cut               // nil: the moment is a resourceVersion of each stream
	start      *sinks.Cut               // by plan
	versions   map[change.StreamID]change.ResourceVersion
	objects    map[string]*object
	whole      bool // the objects are all that there were at a cut: what is not among them did not exist
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
	if err := f.date(ctx, r, q, state); err != nil {
		return nil, nil, err
	}
	return f, state, f.plan(ctx, r)
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

// order says whether a change happened before a moment.
type order int

const (
	before order = iota // before it, or then
	after
	unknown
)

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

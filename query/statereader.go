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

// stateReader finds the last state of each object by the moment.
type stateReader struct {
	timelines  *timelines
	unrecorded map[change.StreamID]bool // streams without control records
	cut        *sinks.Cut               // nil: the moment is a resourceVersion of each stream
	start      *sinks.Cut               // at which objects are read first, or nil if every change must be read
	versions   map[change.StreamID]change.ResourceVersion
	objects    map[string]*object
	daters     map[change.StreamID]*dater // if the target is a time
	noBodies   bool                       // are read
}

// stateReader returns a reader of the state at the target, and what the log can tell of it.
func (s *timelines) stateReader(ctx context.Context, r sinks.Reader, all controls, q Question, moment Target) (*stateReader, *State, error) {
	f := &stateReader{timelines: s, cut: s.cut, versions: map[change.StreamID]change.ResourceVersion{}, objects: map[string]*object{},
		unrecorded: map[change.StreamID]bool{}}
	state := &State{Moment: moment, objects: f.objects}
	if err := f.cover(state, q.Namespace); err != nil {
		return nil, nil, err
	}
	if err := f.checkBackups(ctx, r, all, state.Coverage); err != nil {
		return nil, nil, err
	}
	if err := f.unserved(ctx, r, all, moment, state); err != nil {
		return nil, nil, err
	}
	if err := f.date(ctx, r, q, state); err != nil {
		return nil, nil, err
	}
	return f, state, f.plan(ctx, r)
}

// cover adds within which versions the state is complete. It returns a TwoStatesError if the moment is a version that stands for
// two states.
func (f *stateReader) cover(state *State, namespace string) error {
	s := f.timelines
	for _, id := range slices.Sorted(maps.Keys(s.streams)) {
		if ns := change.ParseStream(id).Namespace; ns != "" && namespace != "" && ns != namespace {
			continue
		}
		if err := s.checkUnique(s.streams[id]); err != nil {
			return err
		}
		c := s.coverage(s.streams[id])
		f.versions[id] = c.At
		state.Coverage = append(state.Coverage, c)
	}
	return nil
}

// resolveWithCut resolves a target, and returns the cut if that is a point of the log, or nil if it is not.
func resolveWithCut(ctx context.Context, r sinks.Reader, moment Target, since time.Time) (Target, *sinks.Cut, error) {
	target, err := resolve(ctx, r, moment, since)
	if err != nil || target.Version != "" || !target.Happened.IsZero() {
		return target, nil, err
	}
	cut, err := r.CutAt(ctx, target.Logged)
	return target, &cut, err
}

// addDoubts adds what a state may lack. Streams without a list come last.
func (f *stateReader) addDoubts(state *State, namespace string) {
	for _, c := range state.Coverage {
		state.Missing = append(state.Missing, c.Missing...)
	}
	if len(state.Coverage) == 0 && len(f.unrecorded) == 0 {
		state.Missing = append(state.Missing, f.timelines.noStream(namespace))
	}
	for _, id := range slices.Sorted(maps.Keys(f.unrecorded)) {
		state.Missing = append(state.Missing, string(id)+": the log has no control record of it any more, so it is unknown from where on "+
			"its changes are complete")
	}
	partial := map[change.StreamID]bool{}
	for _, o := range f.objects {
		partial[o.partialStream] = true
	}
	delete(partial, "")
	for _, id := range slices.Sorted(maps.Keys(partial)) {
		state.Missing = append(state.Missing, string(id)+": the log had only a part of what a list had found, or of what was recovered of a gap")
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

// record is a change whose images are packed once, for all states that use them.
type record struct {
	*sinks.Logged
	before, after []byte // packed; nil: not yet
}

// withBodies adds an empty body for each that there is.
func (r *record) withBodies() *record {
	l := *r.Logged
	if l.Op != change.Delete {
		l.After = []byte("{}")
	}
	if l.Op == change.Update || l.Op == change.Delete {
		l.Before = []byte("{}")
	}
	return &record{Logged: &l}
}

func packed(image []byte, once *[]byte) []byte {
	if image != nil && *once == nil {
		*once = s2.Encode(nil, image)
	}
	return *once
}

// object is the state of one object at the moment, as far as the records that were read show it. It holds one packed body.
type object struct {
	resource        string
	namespace, name string
	uid             string
	version         change.ResourceVersion
	logged          time.Time
	body            []byte // packed; nil: it did not exist
	phase           phase
	inherited       bool            // its record is from an era before the moment's
	doubt           string          // why the body may be wrong
	partialStream   change.StreamID // its stream, if the state is newer than the stream's position at the cut
}

// phase is how much is known of an object while its records are read.
type phase int

const (
	unread  phase = iota // no record from before the moment was read
	seen                 // the last such record that was read has the state
	decided              // a record from after the moment was read: later ones are ignored
)

func (f *stateReader) addRecord(r *record) {
	if f.noBodies {
		r = r.withBodies()
	}
	st := f.timelines.streams[r.Stream.ID()]
	o := f.object(r.Logged, st)
	if o == nil || o.phase == decided {
		return
	}
	if st == nil {
		f.unrecorded[r.Stream.ID()] = true
	}
	happened := f.orderOf(r.Logged, st)
	if happened != before {
		o.setNext(r)
		if happened == unknown {
			o.doubt = f.describeUnknown(r.Logged, st)
		}
		return
	}
	if r.Op == change.Delete && o.body != nil && o.uid != r.UID { // an older object: logs that find objects visit each uid once
		return
	}
	era, _ := f.timelines.compareEra(st, r.Logged)
	o.phase, o.doubt, o.inherited = seen, "", era < 0
	if o.set(r, packed(r.After, &r.after)); r.DeadLetter != "" && r.Op != change.Delete {
		o.doubt = "the topic has only a stub of it; the dead-letter topic has the record under " + r.DeadLetter
	}
	o.partialStream = ""
	if f.cut != nil && st != nil && f.isAfterPosition(r.Logged, st) {
		o.partialStream = st.stream
	}
}

// object returns what is known of a change's object. It returns nil if the change is from before the moment's era.
func (f *stateReader) object(l *sinks.Logged, st *timeline) *object {
	era, inherits := f.timelines.compareEra(st, l)
	if era < 0 && !inherits { // the era's first list has the objects that still existed
		return nil
	}
	resource := change.ResourceOf(l.Stream.ID()).ID()
	key := resource + "\x00" + l.Change.Key()
	o := f.objects[key]
	if o == nil {
		o = &object{resource: resource, namespace: strings.Clone(l.Namespace), name: strings.Clone(l.Name)}
		f.objects[key] = o
	}
	if era > 0 && !inherits {
		o.phase = decided
	}
	return o
}

// set sets the object's state to a packed image. A nil image means that it did not exist.
func (o *object) set(r *record, body []byte) {
	o.uid, o.version, o.logged, o.body = r.UID, r.ResourceVersion, r.Logged.Logged, body
}

// setNext uses the first record after the moment. If no older record has the object's state, that record's before-image does.
func (o *object) setNext(r *record) {
	was := o.phase
	o.phase = decided
	switch {
	case was == seen:
		if v := lacking(o.version, r.Logged); v != "" {
			o.doubt = fmt.Sprintf("the log lacks its change to resourceVersion %s, by the state before the next one", v)
		}
	case r.Op == change.Create || r.Op == change.Read:
	case r.Before != nil:
		o.set(r, packed(r.Before, &r.before))
		o.version = versionOf(r.Before)
	default:
		o.doubt = "its state is not in the log any more, and the next change has no before-image"
	}
}

// order is whether a change happened before a moment.
type order int

const (
	before order = iota // by the moment
	after
	unknown
)

// gapOf returns the gap of the moment's era in which a change was inferred. It returns nil if the change was not inferred, or if
// its gap was recovered completely.
func (f *stateReader) gapOf(l *sinks.Logged, st *timeline) *gap {
	if !l.Inferred || st == nil {
		return nil
	}
	e, _ := f.timelines.eraOf(st)
	own := slices.Index(st.eras, e)
	for i := range st.gaps {
		if g := &st.gaps[i]; g.ID == l.Gap && g.era == own {
			return g
		}
	}
	return nil
}

// orderOf returns whether a change happened by the moment. An inferred change was found by comparing two states. An inferred
// deletion has its object's last known version. It happened at an unknown version before its gap's end, or before it was found.
func (f *stateReader) orderOf(l *sinks.Logged, st *timeline) order {
	if f.cut != nil {
		if f.cut.Has(l) {
			return before
		}
		return after
	}
	if f.isInitial(l, st) {
		return before
	}
	if era, _ := f.timelines.compareEra(st, l); era > 0 {
		return after
	}
	version, gap := f.versions[l.Stream.ID()], f.gapOf(l, st)
	known := l.ResourceVersion.Compare(version) <= 0
	switch {
	case gap != nil && l.Op == change.Delete && gap.To.Compare(version) <= 0:
		return before
	case gap != nil && gap.From.Compare(version) < 0 && (l.Op == change.Delete || !known):
		return unknown
	case gap != nil && l.Op == change.Delete:
		return after
	case l.Inferred && l.Op == change.Delete && known && st != nil:
		return f.orderOfFound(l, st)
	case known:
		return before
	case l.Op == change.Delete && !f.timelines.target.Happened.IsZero() && st != nil && st.atTarget.has(l):
		// It was deleted by the position at which the stream was current again.
		return before
	}
	return after
}

// isInitial reports whether a change is part of the state with which the moment's era began, after a restore of etcd. That state
// is from the era before, and from the new era's list.
func (f *stateReader) isInitial(l *sinks.Logged, st *timeline) bool {
	if st == nil || len(st.eras) < 2 {
		return false
	}
	e, _ := f.timelines.eraOf(st)
	return e != nil && e.full.has(l)
}

// orderOfFound is orderOf for a deletion that was inferred outside of a gap. A snapshot or a proof found it, a watch gave it no
// version of its own, or its resource was removed.
func (f *stateReader) orderOfFound(l *sinks.Logged, st *timeline) order {
	e, _ := f.timelines.eraOf(st)
	if e == nil {
		return unknown
	}
	ended := !e.removed.IsZero() && !e.last.has(l) // until then the resource was served
	switch t := f.timelines.target; {
	case !t.Happened.IsZero() && !l.Time.After(t.Happened):
		return before
	case ended && (t.Happened.IsZero() || !t.Happened.After(e.last.Time)):
		return after
	case t.Happened.IsZero() && (st.afterTarget.Version == "" || st.afterTarget.has(l)):
		return before
	}
	return unknown
}

// describeUnknown says in which range of versions a change of unknown version happened.
func (f *stateReader) describeUnknown(l *sinks.Logged, st *timeline) string {
	if gap := f.gapOf(l, st); gap != nil {
		return fmt.Sprintf("it was %s at an unknown resourceVersion between %s and %s", l.Op.Past(), gap.From, gap.To)
	}
	return fmt.Sprintf("it was %s at an unknown resourceVersion after %s, and before %s", l.Op.Past(), l.ResourceVersion,
		l.Time.UTC().Format(time.RFC3339))
}

// isAfterPosition reports whether a change before the cut is newer than the stream's position at the cut.
func (f *stateReader) isAfterPosition(l *sinks.Logged, st *timeline) bool {
	position := f.versions[st.stream]
	if f.isInitial(l, st) {
		return false
	}
	if l.Op == change.Delete {
		gap := f.gapOf(l, st)
		return gap != nil && gap.To.Compare(position) > 0
	}
	return l.ResourceVersion.Compare(position) > 0
}

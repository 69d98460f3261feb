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
	"kubecdc/query/timeline"
	"kubecdc/sinks"
)

// stateReader finds the last state of each object by the moment.
type stateReader struct {
	timelines  *timeline.Set
	unrecorded map[change.StreamID]bool // streams without control records
	start      *sinks.Cut               // at which objects are read first, or nil if every change must be read
	objects    map[string]*object
	noBodies   bool // are read
}

// newStateReader returns a reader of the state at a moment, and what the log can tell of it.
func newStateReader(ctx context.Context, r sinks.Reader, s *timeline.Set, all timeline.Source, q Question,
	moment timeline.Target) (*stateReader, *State, error) {
	covered, err := s.Cover(q.Namespace)
	if err != nil {
		return nil, nil, err
	}
	err = s.CheckBackups(covered, func(resource string, logged time.Time) (change.ResourceVersion, error) {
		then, err := ReadStatesBy(ctx, r, all, Question{Objects: sinks.Objects{Resources: []string{resource}}},
			timeline.Target{Logged: logged})
		if err != nil {
			return "", err
		}
		return then[0].newestInherited(), nil
	})
	if err != nil {
		return nil, nil, err
	}
	f := &stateReader{timelines: s, objects: map[string]*object{}, unrecorded: map[change.StreamID]bool{}}
	state := &State{Moment: moment, Coverage: covered, objects: f.objects}
	if err := state.findUnserved(ctx, r, all); err != nil {
		return nil, nil, err
	}
	if err := s.Date(ctx, r, &q.Objects, covered); err != nil {
		return nil, nil, err
	}
	return f, state, f.plan(ctx, r)
}

// mostTries is how many of the times at which the changes are certain are tried. The log may lack something else at them.
const mostTries = 3

// readCertain returns a reader of the state at a moment. If something is uncertain at a time that may be moved, the state is from
// the last certain second before that time.
func readCertain(ctx context.Context, r sinks.Reader, all timeline.Source, q Question, moment timeline.Target) (*stateReader,
	*State, error) {
	s, err := all(ctx, q.Resources, moment)
	if err != nil {
		return nil, nil, err
	}
	f, state, err := newStateReader(ctx, r, s, all, q, moment)
	if err != nil || state.isCertain() {
		return f, state, err
	}
	for tries := 0; tries < mostTries && s.Earlier(&moment); tries++ {
		moved, there, err := readCertain(ctx, r, all, q, timeline.Target{Happened: moment.Happened})
		if err != nil || there.isCertain() {
			return moved, there, err
		}
	}
	return f, state, nil
}

// isCertain reports whether the control records and the times of changes leave no doubt.
func (s *State) isCertain() bool {
	return !slices.ContainsFunc(s.Coverage, func(c timeline.Coverage) bool { return c.Unlisted || len(c.Missing) > 0 })
}

// newestInherited returns the newest version of the objects that an era inherited and its list did not change.
func (s *State) newestInherited() (newest change.ResourceVersion) {
	for _, o := range s.objects {
		if len(s.Missing) == 0 && o.live() != nil && o.inherited && o.version.Compare(newest) > 0 {
			newest = o.version
		}
	}
	return newest
}

// addDoubts adds what a state may lack. Streams without a list come last.
func (f *stateReader) addDoubts(state *State, namespace string) {
	for _, c := range state.Coverage {
		state.Missing = append(state.Missing, c.Missing...)
	}
	if len(state.Coverage) == 0 && len(f.unrecorded) == 0 {
		state.Missing = append(state.Missing, f.timelines.NoStream(namespace))
	}
	for _, id := range slices.Sorted(maps.Keys(f.unrecorded)) {
		state.Missing = append(state.Missing, string(id)+
			": the log has no control record of it any more, so it is unknown from where on "+
			"its changes are complete")
	}
	partial := map[change.StreamID]bool{}
	for _, o := range f.objects {
		partial[o.partialStream] = true
	}
	delete(partial, "")
	for _, id := range slices.Sorted(maps.Keys(partial)) {
		state.Missing = append(state.Missing, string(id)+
			": the log had only a part of what a list had found, or of what was recovered of a gap")
	}
	for _, key := range slices.Sorted(maps.Keys(f.objects)) {
		if o := f.objects[key]; o.doubt != "" {
			state.Missing = append(state.Missing, o.resource+" "+change.ObjectKey(o.namespace, o.name)+": "+o.doubt)
		}
	}
	for i := range state.Coverage {
		if c := &state.Coverage[i]; c.WhyUnlisted != "" {
			c.Missing, state.Missing = append(c.Missing, c.WhyUnlisted), append(state.Missing, c.WhyUnlisted)
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
	st := f.timelines.StreamOf(r.Logged)
	o := f.object(r.Logged, st)
	if o == nil || o.phase == decided {
		return
	}
	if st == nil {
		f.unrecorded[r.Stream.ID()] = true
	}
	happened := f.timelines.OrderOf(r.Logged, st)
	if happened != timeline.Before {
		o.setNext(r)
		if happened == timeline.Unknown {
			o.doubt = f.timelines.DescribeUnknown(r.Logged, st)
		}
		return
	}
	if r.Op == change.Delete && o.body != nil && o.uid != r.UID { // an older object: logs that find objects visit each uid once
		return
	}
	era, _ := f.timelines.CompareEra(st, r.Logged)
	o.phase, o.doubt, o.inherited = seen, "", era < 0
	if o.set(r, packed(r.After, &r.after)); r.DeadLetter != "" && r.Op != change.Delete {
		o.doubt = "the topic has only a stub of it; the dead-letter topic has the record under " + r.DeadLetter
	}
	o.partialStream = ""
	if f.timelines.Cut != nil && st != nil && f.timelines.IsAfterPosition(r.Logged, st) {
		o.partialStream = st.Stream
	}
}

// object returns what is known of a change's object. It returns nil if the change is from before the moment's era.
func (f *stateReader) object(l *sinks.Logged, st *timeline.Timeline) *object {
	era, inherits := f.timelines.CompareEra(st, l)
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
		o.version = sinks.VersionOf(r.Before)
	default:
		o.doubt = "its state is not in the log any more, and the next change has no before-image"
	}
}

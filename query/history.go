package query

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/wI2L/jsondiff"

	"kubecdc/change"
	"kubecdc/change/provenance"
	"kubecdc/sinks"
)

// Event is one change of an object, as its history tells it.
type Event struct {
	Resource        string                 `json:"resource"`
	Namespace       string                 `json:"namespace,omitempty"`
	Name            string                 `json:"name"`
	Op              string                 `json:"op"`
	UID             string                 `json:"uid"`
	ResourceVersion change.ResourceVersion `json:"resourceVersion"`
	// Time is when the change happened, as TimeFrom tells; Seen is when the exporter saw it, Logged when the log got it.
	Time     time.Time         `json:"time"`
	TimeFrom change.TimeSource `json:"timeFrom"`
	Seen     time.Time         `json:"seen"`
	Logged   time.Time         `json:"logged"`
	Managers []string          `json:"managers,omitempty"` // the field managers that made it; empty: not known
	Inferred bool              `json:"inferred,omitempty"` // found by comparing two states: it may stand for several changes
	Gap      string            `json:"gap,omitempty"`
	// Patch leads from the object before the change to the one after it.
	Patch jsondiff.Patch `json:"patch,omitempty"`
	Note  string         `json:"note,omitempty"` // what Patch lacks

	Before []byte `json:"-"`
	After  []byte `json:"-"`
}

// History is the past of one object.
type History struct {
	Coverage []Coverage
	Missing  []string
}

// Teller makes events of changes.
type Teller struct {
	Ignore   []string // JSON pointers that patches leave out
	Remember bool     // the last state of each object, which stands in for a before-image that the log does not have
	last     map[string]state
}

type state struct {
	uid  string
	body []byte
}

// Event makes the event of a change; it is valid as long as the change.
func (t *Teller) Event(l *sinks.Logged) (*Event, error) {
	e := &Event{Resource: change.ResourceOf(l.Stream.ID()).ID(), Namespace: l.Namespace, Name: l.Name, Op: l.Op.String(), UID: l.UID,
		ResourceVersion: l.ResourceVersion, Seen: l.Time.UTC(), Logged: l.Logged.UTC(), Inferred: l.Inferred, Gap: l.Gap,
		Before: l.Before, After: l.After}
	e.Time, e.TimeFrom = l.Happened()
	e.Time = e.Time.UTC()
	key := e.Resource + "\x00" + l.Change.Key()
	if last := t.last[key]; e.Before == nil && last.uid == l.UID {
		e.Before = last.body
	}
	t.remember(key, l)
	switch {
	case l.DeadLetter != "":
		e.Note = "the record was too large: the dead-letter topic has it under " + l.DeadLetter
		return e, nil
	case e.Before == nil && (l.Op == change.Update || l.Op == change.Delete):
		e.Note = "the log does not have the object before this change"
	}
	e.Managers = managersOf(&l.Change)
	// A record without a before-image names nobody, and the state that is remembered tells.
	if e.Managers == nil && l.Op != change.Delete && l.Op != change.Read && (e.Before != nil || l.Op == change.Create) {
		c := l.Change
		c.Before = e.Before
		new(provenance.Reader).Read(&c)
		e.Managers = managersOf(&c)
	}
	var err error
	if l.Op == change.Update && e.Before != nil {
		e.Patch, err = Patch(e.Before, e.After, t.Ignore...)
	}
	return e, err
}

func (t *Teller) remember(key string, l *sinks.Logged) {
	if !t.Remember {
		return
	}
	if t.last == nil {
		t.last = map[string]state{}
	}
	t.last[key] = state{l.UID, bytes.Clone(l.After)}
}

// managersOf are the managers that a change names.
func managersOf(c *change.Change) []string {
	if len(c.Provenance.Managers) == 0 {
		return nil
	}
	var names []string
	joined := strings.NewReplacer(`\\`, `\`, `\,`, "\x00", `,`, "\x01").Replace(string(c.Provenance.Managers)) // no name has such characters
	for name := range strings.SplitSeq(joined, "\x01") {
		names = append(names, strings.ReplaceAll(name, "\x00", ","))
	}
	return names
}

// ReadHistory visits the changes of one object, oldest first, and tells how far back they are complete. With follow it goes on
// until the context ends; covered is called before.
func ReadHistory(
	ctx context.Context, r sinks.Reader, resource, namespace, name string, follow bool,
	covered func(*History) error, visit func(*sinks.Logged) error,
) error {
	kept, err := readKept(ctx, r, []string{resource})
	if err != nil {
		return err
	}
	s, err := readStories(ctx, r, []string{resource}, kept, Target{}, nil)
	if err != nil {
		return err
	}
	h := &History{}
	for _, id := range slices.Sorted(maps.Keys(s.streams)) {
		if ns := change.ParseStream(id).Namespace; ns != "" && ns != namespace {
			continue
		}
		c := s.coverage(s.streams[id])
		h.Coverage, h.Missing = append(h.Coverage, c), append(h.Missing, c.Missing...)
		for _, g := range s.streams[id].gaps {
			h.Missing = append(h.Missing, string(id)+": "+g.lacks())
		}
	}
	if len(h.Coverage) == 0 {
		h.Missing = append(h.Missing, s.nothing(namespace))
	}
	if err := covered(h); err != nil {
		return err
	}
	return r.Changes(ctx, sinks.Query{Resources: []string{resource}, Namespace: namespace, Name: name, Follow: follow}, visit)
}

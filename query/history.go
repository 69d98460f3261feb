package query

import (
	"bytes"
	"time"

	"kubecdc/change"
	"kubecdc/change/provenance"
	"kubecdc/query/difference"
	"kubecdc/query/who"
	"kubecdc/sinks"
)

// Event is one change in an object's history.
type Event struct {
	Resource        string                 `json:"resource"`
	Namespace       string                 `json:"namespace,omitempty"`
	Name            string                 `json:"name"`
	Op              string                 `json:"op"`
	UID             string                 `json:"uid"`
	ResourceVersion change.ResourceVersion `json:"resourceVersion"`
	// Time is when the change happened, by the clock that TimeFrom names. Seen is when the exporter saw it, Logged when the log
	// got it.
	Time     time.Time         `json:"time"`
	TimeFrom change.TimeSource `json:"timeFrom"`
	Seen     time.Time         `json:"seen"`
	Logged   time.Time         `json:"logged"`
	Managers []string          `json:"managers,omitempty"` // the field managers that made the change; empty: not known
	By       *who.Who          `json:"by,omitempty"`       // nil: the question asks for no requesters
	Inferred bool              `json:"inferred,omitempty"` // found by comparing two states: it may stand for several changes
	// Time is when the exporter saw it, and it may have happened long before
	Late bool   `json:"late,omitempty"`
	Gap  string `json:"gap,omitempty"`
	// Patch leads from the object before the change to the object after it.
	Patch         []difference.Operation `json:"patch,omitempty"`
	Note          string                 `json:"note,omitempty"` // why there is no Patch
	Before, After []byte                 `json:"-"`
}

// EventMaker makes events of changes.
type EventMaker struct {
	NoPatch  bool                     // make no patches
	ReadLate func(*sinks.Logged) bool // reports whether a change may have happened long before it was seen, or is nil
	Remember bool                     // remember each object's last state, which replaces a before-image that the log lacks
	last     map[string]state
}

type state struct {
	uid  string
	body []byte
}

// Event returns the event of a change. It is valid as long as the change.
func (t *EventMaker) Event(l *sinks.Logged) (*Event, error) {
	e := &Event{Resource: change.ResourceOf(l.Stream.ID()).ID(), Namespace: l.Namespace, Name: l.Name, Op: l.Op.String(),
		UID:             l.UID,
		ResourceVersion: l.ResourceVersion, Seen: l.Time.UTC(), Logged: l.Logged.UTC(), Inferred: l.Inferred, Gap: l.Gap,
		Before: l.Before, After: l.After}
	e.Time, e.TimeFrom = l.Happened()
	e.Time = e.Time.UTC()
	e.Late = e.TimeFrom == change.FromExporter && (l.Gap != "" || t.ReadLate != nil && t.ReadLate(l))
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
	e.Managers = l.Provenance.ManagerNames()
	// A record without a before-image names no managers, but the remembered state shows them.
	if e.Managers == nil && l.Op != change.Delete && l.Op != change.Read && (e.Before != nil || l.Op == change.Create) {
		c := l.Change
		c.Before = e.Before
		new(provenance.Reader).Read(&c)
		e.Managers = c.Provenance.ManagerNames()
	}
	var err error
	if l.Op == change.Update && e.Before != nil && !t.NoPatch {
		e.Patch, err = difference.Patch(e.Before, e.After)
	}
	return e, err
}

func (t *EventMaker) remember(key string, l *sinks.Logged) {
	if !t.Remember {
		return
	}
	if t.last == nil {
		t.last = map[string]state{}
	}
	t.last[key] = state{l.UID, bytes.Clone(l.After)}
}

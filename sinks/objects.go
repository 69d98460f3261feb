package sinks

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// Objects is which objects of a log a command is about. An empty field selects all.
type Objects struct {
	Resources []string `json:"resources,omitempty"` // ids
	Names     []string `json:"names,omitempty"`     // ID/NAME; the ids are those of Resources
	Namespace string   `json:"namespace,omitempty"`
	Selector  string   `json:"selector,omitempty"` // of labels
}

// Query selects the changes of the objects, but for labels, which only a body tells (Labelled).
func (s *Objects) Query() Query {
	q := Query{Resources: s.Resources, Namespace: s.Namespace}
	switch {
	case len(s.Names) == 1:
		_, q.Name, _ = strings.Cut(s.Names[0], "/")
	case len(s.Names) > 1:
		q.Wanted = s.Has
	}
	return q
}

// Has reports whether a change is of the objects, by all but labels.
func (s *Objects) Has(l *Logged) bool {
	return (s.Namespace == "" || s.Namespace == l.Namespace) &&
		(len(s.Names) == 0 || slices.Contains(s.Names, change.ResourceOf(l.Stream.ID()).ID()+"/"+l.Name))
}

// Labelled decides by labels. A change belongs to it if the object had the labels before the change, or has them after it, or if
// the log can't tell: a change too many does no harm, but without a delete a consumer would keep the object. A log can't tell
// from a stub, nor from a delete without the object before it (KUBECDC_BEFORE=none, KUBECDC_ENCODING=object). For an update
// without it the object's last record does, if it was read.
type Labelled struct {
	labels.Selector
	had map[string]bool // the objects that had the labels in their last record
}

// Labelled returns what decides by the labels.
func (s *Objects) Labelled() (*Labelled, error) {
	selector, err := labels.Parse(s.Selector)
	return &Labelled{selector, map[string]bool{}}, err
}

// Selects must see all changes of an object, in their order.
func (s *Labelled) Selects(l *Logged) bool {
	if s.Empty() {
		return true
	}
	object := string(l.Stream.ID()) + "/" + l.Change.Key()
	before := s.had[object]
	if l.Before != nil {
		before = s.Has(l.Before)
	}
	delete(s.had, object)
	if l.Op == change.Delete {
		return before || l.Before == nil
	}
	after := s.Has(l.After)
	if after {
		s.had[object] = true
	}
	return before || after
}

// Has reports whether an object has the labels, or is a stub, which does not tell; nil: all have them.
func (s *Labelled) Has(object []byte) bool {
	return s == nil || s.Empty() || change.IsStub(object) || s.Matches(LabelsOf(object))
}

// LabelsOf are the labels of an object.
func LabelsOf(object []byte) labels.Set {
	set := labels.Set{}
	s := rawjson.New(rawjson.Member(rawjson.Member(object, "metadata"), "labels"))
	for name, more := s.First(); more; name, more = s.Next() {
		set[string(name)], _ = rawjson.Text(s.Skip())
	}
	return set
}

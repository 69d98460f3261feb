package sinks

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// Objects selects objects of a log. An empty field selects all.
type Objects struct {
	Resources []string `json:"resources,omitempty"` // ids
	Names     []string `json:"names,omitempty"`     // ID/NAME, with ids of Resources
	Namespace string   `json:"namespace,omitempty"`
	Selector  string   `json:"selector,omitempty"` // a label selector
}

// Query selects the changes of the objects by all except labels, which only a body has (Labelled).
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

// Has reports whether a change is selected by all except labels.
func (s *Objects) Has(l *Logged) bool {
	return (s.Namespace == "" || s.Namespace == l.Namespace) &&
		(len(s.Names) == 0 || slices.Contains(s.Names, change.ResourceOf(l.Stream.ID()).ID()+"/"+l.Name))
}

// Labelled selects changes by labels. It selects a change if the object had the labels before it or has them after it. It also
// selects a change if the log can't tell. A change too many does no harm, but without a delete a consumer would retain the
// object.
//
// The log can't tell for a stub, nor for a delete without a before-image (KUBECDC_BEFORE=none, KUBECDC_ENCODING=object). For an
// update without a before-image, it can tell if the object's last record was read.
type Labelled struct {
	labels.Selector
	had map[string]bool // objects whose last record had the labels
}

// Labelled returns the selection by labels.
func (s *Objects) Labelled() (*Labelled, error) {
	selector, err := labels.Parse(s.Selector)
	return &Labelled{selector, map[string]bool{}}, err
}

// Restart forgets the changes that were seen, so that they may be seen again.
func (s *Labelled) Restart() { clear(s.had) }

// Selects reports whether a change is selected. It must see all changes of an object in their order.
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

// Has reports whether an object has the labels, or is a stub, which does not show them. If s is nil, all objects have them.
func (s *Labelled) Has(object []byte) bool {
	return s == nil || s.Empty() || change.IsStub(object) || s.Matches(LabelsOf(object))
}

// LabelsOf returns the labels of an object.
func LabelsOf(object []byte) labels.Set {
	set := labels.Set{}
	s := rawjson.New(rawjson.Member(rawjson.Member(object, "metadata"), "labels"))
	for name, more := s.First(); more; name, more = s.Next() {
		set[string(name)], _ = rawjson.Text(s.Skip())
	}
	return set
}

// VersionOf returns the resourceVersion of an object.
func VersionOf(object []byte) change.ResourceVersion {
	text, _ := rawjson.Text(rawjson.Member(rawjson.Member(object, "metadata"), "resourceVersion"))
	return change.ResourceVersion(text)
}

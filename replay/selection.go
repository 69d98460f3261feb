package replay

import (
	"k8s.io/apimachinery/pkg/labels"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/sinks"
)

// selection decides by labels. A change belongs to it if the object had the labels before the change, or has them after it, or if
// the log can't tell: a change too many does no harm, but without a delete a consumer would keep the object. A log can't tell
// from a stub, nor from a delete without the object before it (KUBECDC_BEFORE=none, KUBECDC_ENCODING=object). For an update
// without it the object's last record does, if it was read.
type selection struct {
	labels.Selector
	had map[string]bool // the objects that had the labels in their last record
}

func newSelection(s labels.Selector) *selection {
	return &selection{s, map[string]bool{}}
}

func (s *selection) all() bool { return s.Selector == nil || s.Empty() }

// selects must see all changes of an object, in their order.
func (s *selection) selects(l *sinks.Logged) bool {
	if s.all() {
		return true
	}
	object := string(l.Stream.ID()) + "/" + l.Change.Key()
	before := s.had[object]
	if l.Before != nil {
		before = s.matches(l.Before)
	}
	delete(s.had, object)
	if l.Op == change.Delete {
		return before || l.Before == nil
	}
	after := s.matches(l.After)
	if after {
		s.had[object] = true
	}
	return before || after
}

func (s *selection) matches(object []byte) bool {
	return change.IsStub(object) || s.Matches(labelsOf(object))
}

func labelsOf(object []byte) labels.Set {
	set := labels.Set{}
	s := rawjson.New(rawjson.Member(rawjson.Member(object, "metadata"), "labels"))
	for name, more := s.First(); more; name, more = s.Next() {
		set[string(name)], _ = rawjson.Text(s.Skip())
	}
	return set
}

package plan

import (
	"fmt"
	"slices"

	"kubecdc/change"
)

// Two streams of one resource overlap if an object may be in both. That is the case for streams of the same namespace, or of one
// namespace and all of them, with different selectors. The log orders the changes of a key within one stream, and has each
// stream's knowledge of its objects separately. So an overlapping stream would repeat the other one's changes, and delete objects
// that the other one still selects. The log has only the first of two such streams, even after that one has ended, because its
// objects are still there.

// OverlapError says that the settings select a stream that overlaps with one in the log. Nothing of the selected one was written.
type OverlapError struct {
	Selected change.StreamID
	Stored   change.Position
}

func (e *OverlapError) Error() string {
	s, old := change.ParseStream(e.Selected), change.ParseStream(e.Stored.Stream)
	setting, was := "KUBECDC_NAMESPACES", old.Namespace
	switch {
	case s.LabelSelector != old.LabelSelector:
		setting, was = "KUBECDC_LABEL_SELECTOR", old.LabelSelector
	case s.FieldSelector != old.FieldSelector:
		setting, was = "KUBECDC_FIELD_SELECTOR", old.FieldSelector
	}
	if was == "" {
		was = "empty"
	}
	text := fmt.Sprintf("the settings select the stream %s, and the log has the stream %s, in which the same objects may be: "+
		"two of them "+
		"in one log would repeat each other's changes and delete each other's objects: set %s back (it was %s), or begin "+
		"another log with "+
		"a checkpoint of its own: set KUBECDC_CHECKPOINT to another place, and KUBECDC_KAFKA_TOPIC_PREFIX or "+
		"KUBECDC_SINK_POSTGRES too",
		e.Selected, e.Stored.Stream, setting, was)
	if e.Stored.Ended != "" {
		text += fmt.Sprintf("; or, if that stream has ended for good and its objects may stay in the log: exporter forget '%s'",
			e.Stored.Stream)
	}
	return text
}

// RefuseOverlaps returns an *OverlapError if a selected stream overlaps with a stored one.
func (c *Config) RefuseOverlaps(selected []change.Resource, stored []change.Position) error {
	type collection struct{ resource, namespace string }
	in := map[collection][]change.Position{} // the positions by namespace, where "*" stands for all namespaces together
	for _, p := range stored {
		if p.Stream.IsSnapshot() {
			continue
		}
		s := change.ParseStream(p.Stream)
		for _, namespace := range []string{s.Namespace, "*"} {
			place := collection{s.Resource.ID(), namespace}
			in[place] = append(in[place], p)
		}
	}
	for _, r := range selected {
		for _, s := range c.StreamsOf(r) {
			others := slices.Concat(in[collection{r.ID(), s.Namespace}], in[collection{r.ID(), ""}])
			if s.Namespace == "" {
				others = in[collection{r.ID(), "*"}]
			}
			for _, p := range others {
				if p.Stream != s.ID() {
					return &OverlapError{Selected: s.ID(), Stored: p}
				}
			}
		}
	}
	return nil
}

package query

import (
	"fmt"
	"strings"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Chain finds a change that a log lacks, among the changes of objects in their order. The before-image of an object's change has
// the version of the object's last change in the log, whatever updates the settings ignore.
type Chain struct {
	Lacks string                            // says which change is the first that the log lacks, or ""
	last  map[string]change.ResourceVersion // by object
}

// Add adds a change.
func (c *Chain) Add(l *sinks.Logged) {
	if c.last == nil {
		c.last = map[string]change.ResourceVersion{}
	}
	key := fmt.Sprint(l.Stream.ID(), " ", l.Partition, " ", l.Change.Key())
	if v := lacking(c.last[key], l); v != "" && c.Lacks == "" {
		c.Lacks = fmt.Sprintf("the log lacks the change of %s %s to resourceVersion %s, and perhaps others, by the state "+
			"before the next one",
			change.ResourceOf(l.Stream.ID()).ID(), l.Change.Key(), v)
	}
	c.last[key] = change.ResourceVersion(strings.Clone(string(l.ResourceVersion)))
}

// lacking returns the version of a change that the log lacks between an object's last change and the next one, or "". The
// before-image of a repeated record may have an older version. The before-image of a correction has the version of the correction
// itself.
func lacking(last change.ResourceVersion, next *sinks.Logged) change.ResourceVersion {
	if next.Before == nil || !last.Valid() {
		return ""
	}
	v := sinks.VersionOf(next.Before)
	if isItself := v == next.ResourceVersion && !next.Inferred; isItself || !v.Valid() || v.Compare(last) <= 0 {
		return ""
	}
	return v
}

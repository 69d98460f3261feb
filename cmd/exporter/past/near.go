package past

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/internal/suggest"
	"kubecdc/query"
	"kubecdc/sinks"
)

const (
	nearLimit = 5 * time.Second // for looking
	nearMost  = 3               // objects that are named
)

// nothing is the error of a question about objects that the log does not have. It says what may be meant, or that the log is not ready.
func nothing(ctx context.Context, r sinks.Reader, of *sinks.Objects, coverage []query.Coverage, text string) error {
	if id := unlisted(coverage); id != "" {
		return fmt.Errorf("%s: the first list of %s has not ended yet (exporter status shows how far it is)", text, id)
	}
	_, name, _ := strings.Cut(of.Names[0], "/")
	question := near(ctx, r, of.Resources, name)
	if question == "" {
		question = near(ctx, r, nil, name)
	}
	return errors.New(strings.TrimSuffix(text+"\n"+question, "\n"))
}

// near asks whether objects are meant that the log has: of the same name elsewhere, or of a name like it. It returns the question, or
// nothing. Resources are those to look in; none: all.
func near(ctx context.Context, r sinks.Reader, resources []string, name string) string {
	ctx, cancel := context.WithTimeout(ctx, nearLimit)
	defer cancel()
	found := map[string]int{} // by how many edits away it is
	err := r.Changes(ctx, sinks.Query{Resources: resources, NoBodies: true, Wanted: func(l *sinks.Logged) bool {
		if away := suggest.Distance(l.Name, name); away <= len(name)/4+1 && (len(resources) > 0 || away == 0) {
			object := suggest.Short(change.ResourceOf(l.Stream.ID()).ID()) + "/" + l.Name
			if l.Namespace != "" {
				object += " -n " + l.Namespace
			}
			found[object] = away
		}
		return false
	}}, func(*sinks.Logged) error { return nil })
	if len(found) == 0 || err != nil && ctx.Err() == nil {
		return ""
	}
	names := suggest.Closest(slices.Sorted(maps.Keys(found)), nearMost, func(object string) int { return found[object] })
	return fmt.Sprintf("did you mean %s?", strings.Join(names, ", or "))
}

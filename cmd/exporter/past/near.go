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
	nearLimit = 5 * time.Second // time limit of the search
	nearMost  = 3               // objects in a suggestion
)

// notFound returns the error of a question about objects that the log does not have. It adds a suggestion, or that the first list
// has not ended.
func notFound(ctx context.Context, r sinks.Reader, objects *sinks.Objects, coverage []query.Coverage, text string) error {
	if id := unlisted(coverage); id != "" {
		return fmt.Errorf("%s: the first list of %s has not ended yet (exporter status shows how far it is)", text, id)
	}
	_, name, _ := strings.Cut(objects.Names[0], "/")
	question := suggestion(ctx, r, objects, name)
	if question == "" {
		question = suggestion(ctx, r, &sinks.Objects{}, name)
	}
	return errors.New(strings.TrimSuffix(text+"\n"+question, "\n"))
}

// suggestion returns a question that suggests objects in the log: with the same name elsewhere, or with a similar name. It
// returns "" if there are none. If the log has the object, it says so. An empty list of resources means all.
func suggestion(ctx context.Context, r sinks.Reader, objects *sinks.Objects, name string) string {
	ctx, cancel := context.WithTimeout(ctx, nearLimit)
	defer cancel()
	distances := map[string]int{} // edits from the name, by object
	exists := false
	err := r.Changes(ctx, sinks.Query{Resources: objects.Resources, NoBodies: true, Wanted: func(l *sinks.Logged) bool {
		if distance := suggest.Distance(l.Name, name); distance <= len(name)/4+1 && (len(objects.Resources) > 0 || distance == 0) {
			exists = exists || l.Name == name && len(objects.Resources) > 0 && (objects.Namespace == "" || l.Namespace == objects.Namespace)
			object := suggest.Short(change.ResourceOf(l.Stream.ID()).ID()) + "/" + l.Name
			if l.Namespace != "" {
				object += " -n " + l.Namespace
			}
			distances[object] = distance
		}
		return false
	}}, func(*sinks.Logged) error { return nil })
	switch {
	case len(distances) == 0 || err != nil && ctx.Err() == nil:
		return ""
	case exists:
		return "it has other changes of it: ask for another time, and without --where and --by"
	}
	names := suggest.Closest(slices.Sorted(maps.Keys(distances)), nearMost, func(object string) int { return distances[object] })
	return fmt.Sprintf("did you mean %s?", strings.Join(names, ", or "))
}

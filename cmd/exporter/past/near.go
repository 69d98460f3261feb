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
	"kubecdc/query/timeline"
	"kubecdc/query/who"
	"kubecdc/sinks"
)

const (
	nearLimit = 5 * time.Second // time limit of the search
	nearMost  = 3               // objects in a suggestion
)

// notFound returns the error of a question about objects that the log does not have. It adds a suggestion, or says that the first
// list has not ended.
func notFound(ctx context.Context, r sinks.Reader, objects *sinks.Objects, coverage []timeline.Coverage, text string) error {
	if id := unlisted(coverage); id != "" {
		return fmt.Errorf("%s: the first list of %s has not ended yet (exporter status shows how far it is)", text, id)
	}
	_, name, _ := strings.Cut(objects.Names[0], "/")
	exists, question := suggestion(ctx, r, objects, name)
	if exists {
		question = "it has other changes of it: ask for another time, and without --where and --by"
	} else if question == "" {
		_, question = suggestion(ctx, r, &sinks.Objects{}, name)
	}
	return errors.New(strings.TrimSuffix(text+"\n"+question, "\n"))
}

// checkKnown returns an error if the log has never had an object or the namespace that a question names. answered are the objects
// of the answer, by resource and name. Without this error, an empty answer for a wrong name would mean that nothing has happened.
func checkKnown(ctx context.Context, r sinks.Reader, objects *sinks.Objects, coverage []timeline.Coverage,
	answered map[string]bool) error {
	if len(answered) > 0 && len(objects.Names) < 2 {
		return nil
	}
	if len(answered) == 0 {
		if err := checkNamespace(ctx, r, objects.Namespace); err != nil {
			return err
		}
	}
	for _, object := range objects.Names {
		_, name, _ := strings.Cut(object, "/")
		one := &sinks.Objects{Resources: objects.Resources, Names: []string{object}, Namespace: objects.Namespace}
		if answered[object] {
			continue
		}
		if exists, _ := suggestion(ctx, r, one, name); !exists {
			return notFound(ctx, r, one, coverage, "the log has no "+object+inNamespace(objects.Namespace))
		}
	}
	return nil
}

// checkNamespace returns an error if the log has no namespace of a name, which is "" for all. If that takes too long, it returns
// nil.
func checkNamespace(ctx context.Context, r sinks.Reader, name string) error {
	if name == "" {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, nearLimit)
	defer cancel()
	known := map[string]bool{}
	err := r.Changes(limited, sinks.Query{NoBodies: true, Wanted: func(l *sinks.Logged) bool {
		known[l.Namespace] = true
		if l.Namespace == "" && change.ResourceOf(l.Stream.ID()).ID() == "namespaces" {
			known[l.Name] = true
		}
		return known[name]
	}}, func(*sinks.Logged) error { return errFound })
	if err != nil || known[name] {
		return ctx.Err()
	}
	delete(known, "")
	return fmt.Errorf("the log has no namespace %q%s", name,
		strings.TrimRight(": "+suggest.DidYouMean(name, slices.Sorted(maps.Keys(known))), ": "))
}

// usersOf returns the users of the last day.
func usersOf(ctx context.Context, r sinks.Reader) []string {
	requests, err := who.ReadRequests(ctx, r, &sinks.Objects{}, time.Now().Add(-24*time.Hour))
	if err != nil || requests == nil {
		return nil
	}
	return requests.Users()
}

// errFound ends a read early.
var errFound = errors.New("found")

// suggestion reports whether the log has an object of a name. It returns a question that suggests objects with the same name
// elsewhere, or with a similar name, or "" if there are none. An empty list of resources means all.
func suggestion(ctx context.Context, r sinks.Reader, objects *sinks.Objects, name string) (exists bool, question string) {
	ctx, cancel := context.WithTimeout(ctx, nearLimit)
	defer cancel()
	distances := map[string]int{} // edits from the name, by object
	err := r.Changes(ctx, sinks.Query{Resources: objects.Resources, NoBodies: true, Wanted: func(l *sinks.Logged) bool {
		if distance := suggest.Distance(l.Name, name); distance <= len(name)/3+1 &&
			(len(objects.Resources) > 0 || distance == 0) {
			exists = exists || l.Name == name && len(objects.Resources) > 0 &&
				(objects.Namespace == "" || l.Namespace == objects.Namespace)
			object := suggest.Short(change.ResourceOf(l.Stream.ID()).ID()) + "/" + l.Name
			if l.Namespace != "" {
				object += " -n " + l.Namespace
			}
			distances[object] = distance
		}
		return false
	}}, func(*sinks.Logged) error { return nil })
	if len(distances) == 0 || err != nil && ctx.Err() == nil {
		return exists, ""
	}
	names := suggest.Closest(slices.Sorted(maps.Keys(distances)), nearMost, func(object string) int { return distances[object] })
	return exists, fmt.Sprintf("did you mean %s?", strings.Join(names, ", or "))
}

package query

import (
	"context"
	"slices"
	"strings"

	"kubecdc/change"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
)

// definitions is the resource of CustomResourceDefinitions. The name of each is the id of the resource that it serves.
const definitions = "customresourcedefinitions.apiextensions.k8s.io"

// findUnserved finds the streams without a list whose resource no CRD served at the moment, as the log shows. No objects existed
// then, so the answer is complete. For a moment that is a resourceVersion it does nothing, since versions of two resources can't
// be compared.
func (s *State) findUnserved(ctx context.Context, r sinks.Reader, all timeline.Source) error {
	known, err := r.Resources(ctx)
	if err != nil || s.Moment.Version != "" || !slices.Contains(known, definitions) {
		return err
	}
	objects, defined := sinks.Objects{Resources: []string{definitions}}, map[string]bool{}
	for i := range s.Coverage {
		if id := change.ResourceOf(s.Coverage[i].Stream).ID(); s.Coverage[i].WhyUnlisted != "" && id != definitions {
			objects.Names = append(objects.Names, definitions+"/"+id)
		}
	}
	if len(objects.Names) == 0 {
		return nil
	}
	changes := objects.Query()
	changes.NoBodies = true
	err = r.Changes(ctx, changes, func(l *sinks.Logged) error {
		defined[strings.Clone(l.Name)] = true
		return nil
	})
	if err != nil {
		return err
	}
	then, err := ReadStatesBy(ctx, r, all, Question{Objects: objects}, s.Moment)
	if err != nil || len(then[0].Missing) > 0 {
		return err
	}
	err = then[0].Objects(func(o *Object) error {
		delete(defined, o.Name)
		return nil
	})
	for i := range s.Coverage {
		if c := &s.Coverage[i]; c.WhyUnlisted != "" && defined[change.ResourceOf(c.Stream).ID()] {
			c.WhyUnlisted, c.Unserved = "", true
		}
	}
	return err
}

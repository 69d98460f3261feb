package query

import (
	"context"
	"slices"
	"strings"

	"kubecdc/change"
	"kubecdc/sinks"
)

// definitions is the resource of CustomResourceDefinitions. Each has the id of the resource that it serves as its name.
const definitions = "customresourcedefinitions.apiextensions.k8s.io"

// unserved finds the streams without a list by a moment whose resource no CRD served then, as the log has it: nothing of them existed, and that
// is an answer. resourceVersions of two resources can't be compared, so a moment that is one tells nothing of CRDs.
func (f *stateReader) unserved(ctx context.Context, r sinks.Reader, moment Target, state *State) error {
	known, err := r.Resources(ctx)
	if err != nil || moment.Version != "" || !slices.Contains(known, definitions) {
		return err
	}
	of, defined := sinks.Objects{Resources: []string{definitions}}, map[string]bool{}
	for i := range state.Coverage {
		if id := change.ResourceOf(state.Coverage[i].Stream).ID(); state.Coverage[i].unlisted != "" && id != definitions {
			of.Names = append(of.Names, definitions+"/"+id)
		}
	}
	if len(of.Names) == 0 {
		return nil
	}
	changes := of.Query()
	changes.NoBodies = true
	err = r.Changes(ctx, changes, func(l *sinks.Logged) error {
		defined[strings.Clone(l.Name)] = true
		return nil
	})
	if err != nil {
		return err
	}
	then, err := ReadStates(ctx, r, Question{Objects: of}, moment)
	if err != nil || len(then[0].Missing) > 0 {
		return err
	}
	err = then[0].Objects(func(o *Object) error {
		delete(defined, o.Name)
		return nil
	})
	for i := range state.Coverage {
		if c := &state.Coverage[i]; c.unlisted != "" && defined[change.ResourceOf(c.Stream).ID()] {
			c.unlisted, c.Unserved = "", true
		}
	}
	return err
}

package verify_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/source/discovery"
	"kubecdc/test/require"
	"kubecdc/verify"
)

var must = require.NoError

// logged is a log of pods. Each change is "key version uid body".
type logged struct {
	sinks.Reader
	changes []string
}

func (l logged) Changes(_ context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	for _, text := range l.changes {
		key, o := parse(text)
		c := sinks.Logged{Change: change.Change{Stream: pods, Op: change.Update, Name: key, UID: o.UID, ResourceVersion: o.Version,
			After: []byte(strings.Fields(text)[3])}}
		if !q.Wanted(&c) {
			continue
		}
		if err := visit(&c); err != nil {
			return err
		}
	}
	return nil
}

// spec returns the relevant part of an object "SPEC/BEAT".
func spec(object []byte) ([]byte, error) {
	counts, _, _ := bytes.Cut(object, []byte("/"))
	return counts, nil
}

func TestIgnoredUpdatesAreNoDifference(t *testing.T) {
	for name, c := range map[string]struct {
		ignoring           verify.Ignored
		live, held, logged string // "key version uid body"
		ignored, compacted bool
	}{
		"a field that is ignored":        {verify.Ignored{Relevant: spec}, "a 5 u x/2", "a 1 u", "a 1 u x/1", true, false},
		"a field that counts":            {verify.Ignored{Relevant: spec}, "a 5 u y/2", "a 1 u", "a 1 u x/1", false, false},
		"its position is compacted":      {verify.Ignored{Relevant: spec}, "a 5 u x/2", "a 1 u", "a 1 u x/1", true, true},
		"all fields count":               {verify.Ignored{}, "a 5 u x/2", "a 1 u", "a 1 u x/1", false, false},
		"a version of the inventory":     {verify.Ignored{Relevant: spec}, "a 5 u x/2", "a 3 u", "a 1 u x/1", true, false},
		"older than the log":             {verify.Ignored{Relevant: spec}, "a 5 u x/2", "a 1 u", "a 2 u x/1", false, false},
		"newer than the API server's":    {verify.Ignored{Relevant: spec}, "a 5 u x/2", "a 6 u", "a 6 u x/1", false, false},
		"another object":                 {verify.Ignored{Relevant: spec, Updates: true}, "a 5 u x/2", "a 1 v", "a 1 v x/1", false, false},
		"no updates":                     {verify.Ignored{Updates: true}, "a 5 u y/2", "a 1 u", "", true, false},
		"an object that the log has not": {verify.Ignored{Relevant: spec}, "a 5 u x/2", "a 1 u", "b 1 u x/1", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := world{position: "9", live: []string{c.live}, held: []string{c.held}}
			r, err := verify.Stream(t.Context(), w.read, w.copy(), pods)
			if err != nil || len(r.Differences) != 1 {
				t.Fatal(r, err)
			}
			live := func(_ context.Context, version change.ResourceVersion, visit func(string, change.ResourceVersion, []byte)) error {
				if version != "" && c.compacted {
					return discovery.ErrCompacted
				}
				key, o := parse(c.live)
				visit(key, o.Version, []byte(strings.Fields(c.live)[3]))
				return nil
			}
			var changes []string
			if c.logged != "" {
				changes = []string{c.logged}
			}
			must(t, c.ignoring.RemoveFrom(t.Context(), r, pods, logged{changes: changes}, live))
			if ignored := r.Ignored == 1 && len(r.Differences) == 0; ignored != c.ignored {
				t.Errorf("%d ignored, %d differ", r.Ignored, len(r.Differences))
			}
		})
	}
}

package verify_test

import (
	"context"
	"testing"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/verify"
)

// deletions is a log in which the last change of each object is a deletion, unless its body is "updated".
type deletions struct{ logged }

func (l deletions) Changes(ctx context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	return l.logged.Changes(ctx, q, func(c *sinks.Logged) error {
		if string(c.After) != "updated" {
			c.Op = change.Delete
		}
		return visit(c)
	})
}

// The deletion of an Event moves no position. The log has the deletion, and the API server has the Event at the log's position.
func TestADeletionAfterThePositionIsPending(t *testing.T) {
	for name, c := range map[string]struct {
		changes []string
		pending bool
	}{
		"deleted after the position":           {[]string{"a 5 u updated", "a 12 u deleted"}, true},
		"read from partitions in another turn": {[]string{"a 12 u deleted", "a 5 u updated"}, true},
		"its deletion is lost":                 {[]string{"a 5 u updated"}, false},
		"deleted before the position":          {[]string{"a 5 u updated", "a 8 u deleted"}, false},
		"the deletion of another one":          {[]string{"a 5 u updated", "a 12 v deleted"}, false},
		"it is back in the selection":          {[]string{"a 12 u deleted", "a 13 u updated"}, false},
		"no change of it":                      {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := world{position: "9", live: []string{"a 5 u"}}
			r, err := verify.Stream(t.Context(), w.read, w.copy(), pods)
			if err == nil {
				err = verify.RemovePending(t.Context(), r, pods, deletions{logged{changes: c.changes}})
			}
			must(t, err)
			if pending := r.Pending == 1 && len(r.Differences) == 0; pending != c.pending || !pending && len(r.Differences) != 1 {
				t.Errorf("%+v is pending: %v, want %v", r, pending, c.pending)
			}
		})
	}
}

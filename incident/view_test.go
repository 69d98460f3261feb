package incident_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/change/provenance"
	"kubecdc/incident"
	"kubecdc/query"
	"kubecdc/query/who"
	"kubecdc/sinks"
	"kubecdc/test/require"
)

var must = require.NoError

// noResources is a log without owners.
type noResources struct{ sinks.Reader }

func (noResources) Resources(context.Context) ([]string, error) { return nil, nil }

// happenings makes a random history.
type happenings struct {
	*rand.Rand
	b      *incident.Builder
	events query.EventMaker
	states map[string]string // by resource and name
	lives  map[string]int
	now    time.Time
	n      int
}

// next adds a change. It reports whether alice has deleted an object, which no fold of what followed may hide.
func (h *happenings) next(t *testing.T) (isHers bool) {
	h.now = h.now.Add(time.Duration(h.IntN(4000)) * time.Millisecond)
	h.n++
	resource := []string{"pods", "deployments.apps", "configmaps", "endpoints"}[h.IntN(4)]
	name := fmt.Sprint("o", h.IntN(6))
	key, user := resource+name, []string{"alice", "bob", "system:node:n1", ""}[h.IntN(4)]
	owner := ""
	if name > "o2" {
		owner = `,"ownerReferences":[{"kind":"ReplicaSet","name":"web","uid":"rs","controller":true}]`
	}
	if h.states[key] == "" {
		h.lives[key]++
	}
	uid := fmt.Sprint(key, "-", h.lives[key])
	dated, seen := "", h.now.Add(time.Duration(h.IntN(3000))*time.Millisecond) // late, as after a pause
	if h.IntN(2) == 0 {
		dated = fmt.Sprintf(`,"managedFields":[{"manager":"m%d","time":%q}]`, h.n, h.now.UTC().Format(time.RFC3339))
	}
	l := &sinks.Logged{Logged: seen, Change: change.Change{Stream: change.ParseStream(change.StreamID(resource)), Op: change.Update, Namespace: "shop", Name: name,
		UID: uid, ResourceVersion: change.VersionOf(uint64(h.n)), Time: seen, Before: []byte(h.states[key])}}
	spec, status := h.IntN(3), []string{"Running", "Pending", "Failed"}[h.IntN(3)]
	l.After = fmt.Appendf(nil, `{"metadata":{"name":%q,"uid":%q,"resourceVersion":"%d"%s%s},"spec":{"n":%d},"status":{"phase":%q}}`, name, uid, h.n, owner, dated, spec,
		status)
	switch {
	case h.states[key] == "":
		l.Op, l.Before = change.Create, nil
	case h.IntN(5) == 0:
		l.Op, l.After = change.Delete, nil
	}
	h.states[key] = string(l.After)
	new(provenance.Reader).Read(&l.Change)
	e, err := h.events.Event(l)
	must(t, err)
	if user != "" {
		e.By = &who.Who{Grade: who.Exact, User: user}
	}
	must(t, h.b.Add(l, e))
	return l.Op == change.Delete && user == "alice" && resource != "endpoints"
}

// Whatever happens, each change is in one entry, but for the updates that begin a deletion. Changes of an object are in order. A person's deletion has its own entry, unless it is
// one of many that are alike.
func TestEachChangeIsInOneEntry(t *testing.T) {
	const changes = 200
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 61))
		h := &happenings{Rand: random, b: &incident.Builder{Stepwise: random.IntN(4) == 0}, events: query.EventMaker{Remember: true, NoPatch: true},
			states: map[string]string{}, lives: map[string]int{}, now: time.Unix(1e9, 0)}
		hers := 0
		for range changes {
			if h.next(t) {
				hers++
			}
		}
		v, err := h.b.End(t.Context(), noResources{})
		must(t, err)
		counted, versions := 0, map[string]change.ResourceVersion{}
		last := time.Time{}
		for _, e := range v.Entries {
			if late := 4 * time.Second; e.Time.Before(last.Add(-late)) && (e.Fold == nil || e.Fold.Resource != "") {
				t.Errorf("seed %d: entries are not in order", seed)
			}
			if last = e.Time; e.Fold == nil {
				if versions[e.Event.UID].Compare(e.Event.ResourceVersion) > 0 {
					t.Errorf("seed %d: %s is after %s, which is newer", seed, e.Event.ResourceVersion, versions[e.Event.UID])
				}
				versions[e.Event.UID] = e.Event.ResourceVersion
				if counted++; e.Event.Op == "d" && e.Event.Resource != "endpoints" && e.Event.By != nil && e.Event.By.User == "alice" {
					hers--
				}
				continue
			}
			counted += e.Fold.Created + e.Fold.Deleted + e.Fold.Updates
			if e.Fold.Author == "alice" && e.Fold.Resource != "endpoints" {
				hers -= e.Fold.Deleted
			}
		}
		if counted != changes {
			t.Errorf("seed %d: %d of %d changes are in the view", seed, counted, changes)
		}
		if hers != 0 {
			t.Errorf("seed %d: %d deletions by alice are folded with what followed", seed, hers)
		}
	}
}

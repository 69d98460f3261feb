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
	"kubecdc/sinks"
)

// noResources is a log without owners.
type noResources struct{ sinks.Reader }

func (noResources) Resources(context.Context) ([]string, error) { return nil, nil }

// Whatever happens, each change is in one entry, but for the updates that begin a deletion. A person's change of a spec has its own entry, unless
// it is one of many that are alike.
func TestEachChangeIsInOneEntry(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 61))
		b, events := &incident.Builder{Stepwise: random.IntN(4) == 0}, query.EventMaker{Remember: true, NoPatch: true}
		states, lives, changes, left := map[string]string{}, map[string]int{}, 0, map[string]int{}
		now := time.Unix(1e9, 0)
		for i := range 200 {
			now = now.Add(time.Duration(random.IntN(4000)) * time.Millisecond)
			resource := []string{"pods", "deployments.apps", "configmaps", "endpoints"}[random.IntN(4)]
			name := fmt.Sprint("o", random.IntN(6))
			key, user := resource+name, []string{"alice", "bob", "system:node:n1", ""}[random.IntN(4)]
			owner := ""
			if name > "o2" {
				owner = `,"ownerReferences":[{"kind":"ReplicaSet","name":"web","uid":"rs","controller":true}]`
			}
			if states[key] == "" {
				lives[key]++
			}
			uid := fmt.Sprint(key, "-", lives[key])
			l := &sinks.Logged{Logged: now, Change: change.Change{Stream: change.ParseStream(change.StreamID(resource)), Op: change.Update, Namespace: "shop", Name: name,
				UID: uid, ResourceVersion: change.VersionOf(uint64(i + 1)), Time: now, Before: []byte(states[key])}}
			spec, status := random.IntN(3), []string{"Running", "Pending", "Failed"}[random.IntN(3)]
			l.After = fmt.Appendf(nil, `{"metadata":{"name":%q,"uid":%q,"resourceVersion":"%d"%s},"spec":{"n":%d},"status":{"phase":%q}}`, name, uid, i+1, owner, spec, status)
			switch {
			case states[key] == "":
				l.Op, l.Before = change.Create, nil
			case random.IntN(5) == 0:
				l.Op, l.After = change.Delete, nil
			}
			states[key] = string(l.After)
			new(provenance.Reader).Read(&l.Change)
			e, err := events.Event(l)
			if err != nil {
				t.Fatal(err)
			}
			if user != "" {
				e.By = &query.Who{Grade: query.Exact, User: user}
			}
			if err := b.Add(l, e); err != nil {
				t.Fatal(err)
			}
			if changes++; l.Op == change.Delete && user == "alice" && resource != "endpoints" {
				left["alice"]++
			}
		}
		v, err := b.End(t.Context(), noResources{})
		if err != nil {
			t.Fatal(err)
		}
		counted, last := 0, time.Time{}
		for _, e := range v.Entries {
			if e.Time.Before(last) {
				t.Errorf("seed %d: entries are not in order", seed)
			}
			if last = e.Time; e.Fold == nil {
				if counted++; e.Event.Op == "d" && e.Event.Resource != "endpoints" && e.Event.By != nil && e.Event.By.User == "alice" {
					left["alice"]--
				}
				continue
			}
			counted += e.Fold.Created + e.Fold.Deleted + e.Fold.Updates
			if e.Fold.Author == "alice" && e.Fold.Resource != "endpoints" {
				left["alice"] -= e.Fold.Deleted
			}
		}
		if counted != changes {
			t.Errorf("seed %d: %d of %d changes are in the view", seed, counted, changes)
		}
		if left["alice"] != 0 {
			t.Errorf("seed %d: %d deletions by alice are folded with what followed", seed, left["alice"])
		}
	}
}

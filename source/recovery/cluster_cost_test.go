package recovery

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"kubecdc/change"
)

// part is a resource of a large cluster: how many objects it has, and what a minute changes (docs/capacity.md).
type part struct {
	name   string
	alive  int
	turns  float64 // a second
	begins int     // a turn creates an object by so many changes, and another one, the oldest, ends by the others
	ends   int
	steps  int // or it changes an object so often
	leased bool
}

// clusterOf is bench/capacity's model: 30 Pods a node, a million Pods a day where there are 5,000 nodes.
func clusterOf(nodes float64) []part {
	pods := 30 * nodes
	rolled, worked := pods/86400, (200*nodes-pods)/86400
	return []part{
		{name: "leases", alive: int(nodes), turns: nodes / 10, steps: 1},
		{name: "nodes", alive: int(nodes), turns: nodes / 300, steps: 1},
		{name: "pods", alive: int(pods), turns: rolled + worked, begins: 5, ends: 4},
		{name: "events", alive: int(6 * (rolled + worked) * 3600), turns: 6 * (rolled + worked), begins: 1, ends: 1, leased: true},
		{name: "deployments", alive: int(pods / 10), turns: rolled, steps: 2},
		{name: "replicasets", alive: int(pods / 10 * 11), turns: rolled, steps: 4},
		{name: "endpointslices", alive: int(pods / 10), turns: rolled, steps: 4},
		{name: "jobs", alive: int(worked * 3600), turns: worked, begins: 4, ends: 1},
	}
}

// clusterFrom is the revision at which the gap begins.
const clusterFrom = 1 << 30

// inCluster is a part's history, with sizes from the gap's start on.
type inCluster struct {
	*collection
	part
	expired int // of those that existed when the gap began
}

func (c *inCluster) Size(_ context.Context, revision uint64) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sizeReads++
	return c.sizes[revision-clusterFrom], nil
}

func (c *inCluster) requests() int { return c.sizeReads + c.objects + c.pages + c.full }

// seconds is what the reads take one after another, by the costs of performance.md.
func (c *inCluster) seconds() float64 {
	f := firstCosts
	return float64(c.requests())*1e-3 + f.counted*float64(c.sizeReads)*float64(len(c.keys)) + f.named*float64(c.named) + f.bodied*float64(c.listed)
}

// newCluster writes for some seconds.
func newCluster(random *rand.Rand, parts []part, seconds float64) (all []*inCluster, to uint64) {
	type event struct {
		at       float64
		resource int
		key      string
		state    state
	}
	var events []event
	for n, p := range parts {
		c := &inCluster{collection: &collection{lives: map[string][]state{}}, part: p}
		for i := range p.alive {
			key := fmt.Sprintf("ns-%03d/n-%07d", i%200, i)
			c.keys, c.lives[key] = append(c.keys, key), []state{{uint64(1 + random.IntN(clusterFrom-1)), 1}}
		}
		for turn := range int(p.turns * seconds) {
			at := random.Float64() * seconds
			if p.steps > 0 && p.name == "leases" { // each in its turn
				at = float64(turn) / p.turns
			}
			write := func(key string, uid int, more float64) {
				events = append(events, event{at + more, n, key, state{uid: uid}})
			}
			old := c.keys[(turn*7919)%max(p.alive, 1)]
			if p.name == "leases" {
				old = c.keys[turn%p.alive]
			}
			for i := range p.steps {
				write(old, 1, float64(i))
			}
			for i := range p.begins {
				write(fmt.Sprintf("ns-%03d/z-%07d", turn%200, turn), 1, float64(i))
			}
			if p.leased { // a lease has many Events, which expire at one revision
				if turn%500 == 0 {
					events = append(events, event{at: at, resource: n})
				}
				continue
			}
			for i := range p.ends {
				write(old, min(1, p.ends-1-i), float64(i)*2)
			}
		}
		all = append(all, c)
	}
	slices.SortStableFunc(events, func(x, y event) int {
		switch {
		case x.at < y.at:
			return -1
		case x.at > y.at:
			return 1
		}
		return 0
	})
	events = slices.DeleteFunc(events, func(e event) bool { return e.at > seconds })
	for _, c := range all {
		c.sizes = make([]int64, len(events)+1)
		c.sizes[0] = int64(len(c.keys))
	}
	to = clusterFrom
	for i, e := range events {
		to++
		for _, c := range all {
			c.sizes[i+1] = c.sizes[i]
		}
		c := all[e.resource]
		if e.key == "" {
			for range 500 {
				c.lives[c.keys[c.expired]] = append(c.lives[c.keys[c.expired]], state{revision: to})
				c.expired++
				c.sizes[i+1]--
			}
			continue
		}
		lives := c.lives[e.key]
		had := len(lives) > 0 && lives[len(lives)-1].uid != 0
		switch {
		case len(lives) == 0:
			c.keys = append(c.keys, e.key)
		case !had:
			continue // another turn has ended it: an empty revision
		}
		if e.state.uid == 0 {
			c.sizes[i+1]--
		} else if !had {
			c.sizes[i+1]++
		}
		e.state.revision = to
		c.lives[e.key] = append(lives, e.state)
	}
	for _, c := range all {
		slices.Sort(c.keys)
	}
	return all, to
}

// What a minute of a large cluster costs: KUBECDC_TEST_MEASURE=1 go test ./source/recovery -run TestCostOfACluster -v
func TestCostOfACluster(t *testing.T) {
	if os.Getenv("KUBECDC_TEST_MEASURE") == "" {
		t.Skip("a table, no test; set KUBECDC_TEST_MEASURE=1")
	}
	for _, nodes := range []float64{50, 500, 5000} {
		for _, leftOut := range []string{"", "leases", "leases events", "unread"} {
			all, to := newCluster(rand.New(rand.NewPCG(1, 2)), clusterOf(nodes), 60)
			coordinator := NewCoordinator(slog.New(slog.DiscardHandler))
			var witnesses []Witness
			var recoveries []func()
			var wg, begun sync.WaitGroup
			for _, c := range all {
				s := change.NewStream(change.Resource{Version: "v1", Plural: c.name, Namespaced: true}, "", "", "")
				if leftOut == "unread" && c.name == "leases" {
					continue
				}
				if slices.Contains([]string{"leases", "leases events"}, leftOut) && (c.name == "leases" || c.leased && leftOut != "leases") {
					witnesses = append(witnesses, Witness{Stream: s, Leased: c.leased, History: c,
						Store: func(context.Context) (bool, bool, error) { return true, false, nil }})
					continue
				}
				p := coordinator.Join(s, c.leased)
				log, g := c.gap(clusterFrom, to)
				g.Leased, g.Participant, g.Parallel = c.leased, p, 8
				g.Witnesses = func() []Witness { return witnesses }
				begun.Add(1)
				recoveries = append(recoveries, func() {
					p.Begin()
					defer p.End()
					_, _ = coordinator.Overrides(t.Context(), func(context.Context) (int, error) { return 0, nil })
					p.SetStore(true, false)
					p.Listed(to, len(g.Changed)+len(g.Missing))
					begun.Done()
					begun.Wait()
					plan, incomplete, err := Recover(t.Context(), c, log, g)
					if err != nil || incomplete != "" {
						t.Error(c.name, len(plan), incomplete, err)
					}
				})
			}
			for _, one := range recoveries {
				wg.Go(one)
			}
			wg.Wait()
			requests, seconds, each := 0, 0.0, ""
			for _, c := range all {
				requests, seconds = requests+c.requests(), seconds+c.seconds()
				each += fmt.Sprintf("  %s %d (%d sizes, %d objects)", c.name, c.requests(), c.sizeReads, c.objects)
			}
			t.Logf("%5.0f nodes, left out %-14q %6d revisions: %6d requests, %4.0f s:%s", nodes, leftOut, to-clusterFrom, requests, seconds, each)
		}
	}
}

package recovery

import (
	"cmp"
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
	var events []clusterEvent
	for n, p := range parts {
		c := &inCluster{collection: &collection{lives: map[string][]state{}}, part: p}
		for i := range p.alive {
			key := fmt.Sprintf("ns-%03d/n-%07d", i%200, i)
			written := uint64(1 + random.IntN(clusterFrom-1))
			if p.leased { // objects expire in the order in which they were written
				written = uint64(clusterFrom - p.alive + i)
			}
			c.keys, c.lives[key] = append(c.keys, key), []state{{written, 1}}
		}
		events = append(events, c.events(random, n, seconds)...)
		all = append(all, c)
	}
	slices.SortStableFunc(events, func(x, y clusterEvent) int { return cmp.Compare(x.at, y.at) })
	events = slices.DeleteFunc(events, func(e clusterEvent) bool { return e.at > seconds })
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
		all[e.resource].apply(e, i+1, to)
	}
	for _, c := range all {
		slices.Sort(c.keys)
	}
	return all, to
}

// clusterEvent is a write of one object, or without a key the end of a lease that many Events share.
type clusterEvent struct {
	at       float64
	resource int
	key      string
	state    state
}

// events are what a minute changes of the resource n.
func (c *inCluster) events(random *rand.Rand, n int, seconds float64) (events []clusterEvent) {
	p := c.part
	for turn := range int(p.turns * seconds) {
		at := random.Float64() * seconds
		if p.steps > 0 && p.name == "leases" { // each in its turn
			at = float64(turn) / p.turns
		}
		write := func(key string, uid int, more float64) {
			events = append(events, clusterEvent{at + more, n, key, state{uid: uid}})
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
				events = append(events, clusterEvent{at: at, resource: n})
			}
			continue
		}
		for i := range p.ends {
			write(old, min(1, p.ends-1-i), float64(i)*2)
		}
	}
	return events
}

// apply makes the revision to, which is the i-th, of an event.
func (c *inCluster) apply(e clusterEvent, i int, to uint64) {
	if e.key == "" {
		for range 500 {
			c.lives[c.keys[c.expired]] = append(c.lives[c.keys[c.expired]], state{revision: to})
			c.expired++
			c.sizes[i]--
		}
		return
	}
	lives := c.lives[e.key]
	had := len(lives) > 0 && lives[len(lives)-1].uid != 0
	switch {
	case len(lives) == 0:
		c.keys = append(c.keys, e.key)
	case !had:
		return // another turn has ended it: an empty revision
	}
	if e.state.uid == 0 {
		c.sizes[i]--
	} else if !had {
		c.sizes[i]++
	}
	e.state.revision = to
	c.lives[e.key] = append(lives, e.state)
}

// minute is what a recovery of a minute costs.
type minute struct {
	revisions, requests int
	seconds             float64
	each                string
}

// minuteOf recovers the streams of a cluster together. Resources that are left out explain revisions, unless nobody may read them.
func minuteOf(t *testing.T, nodes float64, leftOut string, readable bool) (m minute) {
	all, to := newCluster(rand.New(rand.NewPCG(1, 2)), clusterOf(nodes), 60)
	c := NewCoordinator(slog.New(slog.DiscardHandler))
	var witnesses []Witness
	var recoveries []func()
	var wg, begun sync.WaitGroup
	for _, one := range all {
		s := change.NewStream(change.Resource{Version: "v1", Plural: one.name, Namespaced: true}, "", "", "")
		if one.name == leftOut {
			if readable {
				witnesses = append(witnesses, Witness{Stream: s, Leased: one.leased, History: one,
					Store: func(context.Context) (bool, bool, error) { return true, false, nil }})
			}
			continue
		}
		begun.Add(1)
		recoveries = append(recoveries, func() {
			p := c.Join(s, one.leased)
			p.Begin()
			defer p.End()
			_, _ = c.Overrides(t.Context(), func(context.Context) (int, error) { return 0, nil })
			p.SetStore(true, false)
			log, g := one.gap(clusterFrom, to)
			g.Leased, g.Participant, g.Parallel = one.leased, p, 8
			g.Witnesses = func() []Witness { return witnesses }
			p.Listed(to, len(g.Changed)+len(g.Missing))
			begun.Done()
			begun.Wait()
			if _, incomplete, err := Recover(t.Context(), one, log, g); err != nil || incomplete != "" {
				t.Error(one.name, incomplete, err)
			}
		})
	}
	for _, one := range recoveries {
		wg.Go(one)
	}
	wg.Wait()
	m.revisions = int(to - clusterFrom)
	for _, one := range all {
		m.requests, m.seconds = m.requests+one.requests(), m.seconds+one.seconds()
		m.each += fmt.Sprintf("  %s %d (%d sizes, %d objects)", one.name, one.requests(), one.sizeReads, one.collection.objects)
	}
	return m
}

// A minute of a cluster of 500 nodes is recovered by fewer requests than it has revisions, whether its Leases are exported or not.
func TestAMinuteOfAClusterCostsLessThanItsRevisions(t *testing.T) {
	for _, leftOut := range []string{"", "leases"} {
		if m := minuteOf(t, 500, leftOut, true); m.requests > m.revisions {
			t.Errorf("left out %q: %d requests over %d revisions:%s", leftOut, m.requests, m.revisions, m.each)
		}
	}
}

// What a minute costs: KUBECDC_TEST_MEASURE=1 go test ./source/recovery -run TestCostOfAMinute -v
func TestCostOfAMinute(t *testing.T) {
	if os.Getenv("KUBECDC_TEST_MEASURE") == "" {
		t.Skip("a table, no test; set KUBECDC_TEST_MEASURE=1")
	}
	for _, nodes := range []float64{50, 500, 1000, 5000} {
		for _, leftOut := range []string{"", "leases", "events"} {
			for _, readable := range []bool{true, false}[:min(2, 1+len(leftOut))] {
				m := minuteOf(t, nodes, leftOut, readable)
				t.Logf("%5.0f nodes, left out %q, readable %v, %6d revisions: %6d requests, %4.0f s:%s", nodes, leftOut, readable, m.revisions, m.requests, m.seconds, m.each)
			}
		}
	}
}

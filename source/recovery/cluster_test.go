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
	"kubecdc/test/minute"
)

// clusterFrom is the revision at which the gap begins.
const clusterFrom = 1 << 30

// inCluster is a part's history, with sizes from the gap's start on.
type inCluster struct {
	*collection
	minute.Part
	expired int // how many of the objects that existed when the gap began expired
}

func (c *inCluster) Size(_ context.Context, revision uint64) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sizeReads++
	return c.sizes[revision-clusterFrom], nil
}

func (c *inCluster) requests() int { return c.sizeReads + c.objects + c.pages + c.full }

// seconds is what the reads take one after another, by the costs that were measured.
func (c *inCluster) seconds() float64 {
	f := firstCosts
	return float64(c.requests())*1e-3 + f.counted*float64(c.sizeReads)*float64(len(c.keys)) + f.named*float64(c.named) + f.bodied*float64(c.listed)
}

// newCluster writes for a minute.
func newCluster(random *rand.Rand, nodes float64) (all []*inCluster, to uint64) {
	parts := minute.Cluster(nodes)
	for _, p := range parts {
		c := &inCluster{collection: &collection{lives: map[string][]state{}}, Part: p}
		for i := range p.Alive {
			key, written := p.Key(i), uint64(1+random.IntN(clusterFrom-1))
			if p.Leased { // objects expire in the order in which they were written
				written = uint64(clusterFrom - p.Alive + i)
			}
			c.keys, c.lives[key] = append(c.keys, key), []state{{written, 1}}
		}
		all = append(all, c)
	}
	writes := minute.Writes(random, parts, 60)
	for _, c := range all {
		c.sizes = make([]int64, len(writes)+1)
		c.sizes[0] = int64(len(c.keys))
	}
	to = clusterFrom
	for i, w := range writes {
		to++
		for _, c := range all {
			c.sizes[i+1] = c.sizes[i]
		}
		all[w.Part].apply(w, i+1, to)
	}
	for _, c := range all {
		slices.Sort(c.keys)
	}
	return all, to
}

// apply makes the revision to, which is the i-th, of a write.
func (c *inCluster) apply(w minute.Write, i int, to uint64) {
	if w.Key == "" {
		for range min(minute.Expiring, len(c.keys)-c.expired) {
			c.lives[c.keys[c.expired]] = append(c.lives[c.keys[c.expired]], state{revision: to})
			c.expired++
			c.sizes[i]--
		}
		return
	}
	written := state{to, 1}
	switch {
	case len(c.lives[w.Key]) == 0:
		c.keys = append(c.keys, w.Key)
		c.sizes[i]++
	case w.Delete:
		written.uid = 0
		c.sizes[i]--
	}
	c.lives[w.Key] = append(c.lives[w.Key], written)
}

// cost is what a recovery of a minute costs.
type cost struct {
	revisions, requests int
	seconds             float64
	each                string
}

// minuteOf recovers the streams of a cluster together. Resources that are left out explain revisions, unless nobody may read them.
func minuteOf(t *testing.T, nodes float64, leftOut string, readable bool) (m cost) {
	all, to := newCluster(rand.New(rand.NewPCG(1, 2)), nodes)
	c := NewCoordinator(slog.New(slog.DiscardHandler))
	var witnesses []Witness
	var recoveries []func()
	var wg, begun sync.WaitGroup
	for _, one := range all {
		s := change.NewStream(one.Resource, "", "", "")
		if one.Plural == leftOut {
			if readable {
				witnesses = append(witnesses, Witness{Stream: s, Leased: one.Leased, History: one,
					Store: func(context.Context) (bool, bool, error) { return true, false, nil }})
			}
			continue
		}
		begun.Add(1)
		recoveries = append(recoveries, func() {
			p := c.Join(s, one.Leased)
			p.Begin()
			defer p.End()
			_, _ = c.Overrides(t.Context(), func(context.Context) (int, error) { return 0, nil })
			p.SetStore(true, false)
			log, g := one.gap(clusterFrom, to)
			g.Kind.Several, g.Participant, g.Parallel = one.Leased, p, 8
			g.Witnesses = allowed(witnesses)
			p.Listed(to, len(g.Changed)+len(g.Missing))
			begun.Done()
			begun.Wait()
			if _, incomplete, err := Recover(t.Context(), one, log, g); err != nil || incomplete != "" {
				t.Error(one.Plural, incomplete, err)
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
		m.each += fmt.Sprintf("  %s %d (%d sizes, %d objects)", one.Plural, one.requests(), one.sizeReads, one.collection.objects)
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

package recovery

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"sync"
	"testing"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/source/known"
)

// collection is a History of many writes that counts requests: one for each page.
type collection struct {
	keys  []string
	lives map[string][]state // by key, in order
	sizes []int64            // at each revision

	mu                              sync.Mutex
	sizeReads, objects, pages, full int
	listed, named                   int
}

// state is an object from a revision on.
type state struct {
	revision uint64
	uid      int // 0: it does not exist
}

// newCollection has objects that rest, and others that a share of the revisions writes at random. One in three writes to an object that
// exists deletes it, unless there are only updates.
func newCollection(random *rand.Rand, resting, busy, revisions int, share float64, onlyUpdates bool) (c *collection, from, to uint64) {
	c = &collection{lives: map[string][]state{}}
	n := int64(0)
	for i := range resting + busy {
		namespace := 0 // the namespace of the busy objects
		if i < resting {
			namespace = 1 + i%49
		}
		key := fmt.Sprintf("ns-%02d/n-%06d", namespace, i)
		c.keys = append(c.keys, key)
		c.lives[key] = []state{{uint64(i + 1), 1}}
		n++
		c.sizes = append(c.sizes, n)
	}
	from = uint64(len(c.sizes))
	c.sizes = append(c.sizes, n)
	to = from + uint64(revisions)
	for r := from + 1; r <= to; r++ {
		if random.Float64() < share {
			key := c.keys[resting+random.IntN(busy)]
			all := c.lives[key]
			last := all[len(all)-1]
			switch {
			case last.uid == 0:
				last, n = state{r, len(all)}, n+1
			case !onlyUpdates && random.IntN(3) == 0:
				last, n = state{r, 0}, n-1
			default:
				last.revision = r
			}
			c.lives[key] = append(all, last)
		}
		c.sizes = append(c.sizes, n)
	}
	slices.Sort(c.keys)
	return c, from, to
}

func (c *collection) object(key string, revision uint64) (o known.Object, exists bool) {
	all := c.lives[key]
	i := sort.Search(len(all), func(i int) bool { return all[i].revision > revision }) - 1
	if i < 0 || all[i].uid == 0 {
		return o, false
	}
	return known.Object{UID: fmt.Sprintf("%s#%d", key, all[i].uid), Version: change.VersionOf(all[i].revision)}, true
}

func (c *collection) Size(_ context.Context, revision uint64) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sizeReads++
	return c.sizes[revision], nil
}

func (c *collection) Object(_ context.Context, key string, revision uint64) (apiclient.Object, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects++
	o, exists := c.object(key, revision)
	return object(key, o), exists, nil
}

func (c *collection) Names(_ context.Context, namespace string, revision uint64, visit func(apiclient.Object) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, key := range c.keys {
		if in, _ := change.SplitKey(key); namespace == "" || in == namespace {
			if o, exists := c.object(key, revision); exists {
				n++
				if err := visit(object(key, o)); err != nil {
					return err
				}
			}
		}
	}
	c.named += n
	c.pages += 1 + (n-1)/largestPage
	return nil
}

func (c *collection) Objects(_ context.Context, namespace string, revision, newerThan uint64, visit func(apiclient.Object) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	after, n := change.VersionOf(newerThan), 0
	for _, key := range c.keys {
		if in, _ := change.SplitKey(key); namespace != "" && in != namespace {
			continue
		}
		if o, exists := c.object(key, revision); exists {
			n++
			found := object(key, o)
			if found.Raw = aConfigMap; o.Version.Compare(after) <= 0 {
				found.Raw = nil
			}
			if err := visit(found); err != nil {
				return err
			}
		}
	}
	c.full += 1 + (n-1)/largestPage
	c.listed += n
	return nil
}

// aConfigMap is a body of the size of those that TestMeasureGaps uses.
var aConfigMap = make([]byte, 560)

// gap is what a list shows.
func (c *collection) gap(from, to uint64) (*known.Set, Gap) {
	log, g := known.New(), Gap{From: from, To: to, Parallel: 1, Namespaced: true, ListedIn: map[string]int64{},
		tuning: asInProduction()}
	for _, key := range c.keys {
		before, had := c.object(key, from)
		if had {
			log.Put(key, before.UID, before.Version)
		}
		after, has := c.object(key, to)
		if has {
			namespace, _ := change.SplitKey(key)
			g.Listed++
			g.ListedIn[namespace]++
			if before != after {
				g.Changed = append(g.Changed, object(key, after))
			}
		}
		if had && after.UID != before.UID {
			g.Missing = append(g.Missing, key)
		}
	}
	return log, g
}

// What gaps cost, in requests: KUBECDC_TEST_MEASURE=1 go test ./source/recovery -run TestCost -v
func TestCost(t *testing.T) {
	if os.Getenv("KUBECDC_TEST_MEASURE") == "" {
		t.Skip("a table, no test; set KUBECDC_TEST_MEASURE=1")
	}
	for _, updates := range []bool{true, false} {
		for _, revisions := range []int{1_000, 30_000} {
			for _, objects := range []int{100, 1_000, 50_000} {
				for _, busy := range []float64{0.01, 0.2, 1} {
					for _, share := range []float64{0.1, 1} {
						n := max(1, int(float64(objects)*busy))
						c, from, to := newCollection(rand.New(rand.NewPCG(1, 2)), objects-n, n, revisions, share, updates)
						log, g := c.gap(from, to)
						plan, incomplete, err := Recover(t.Context(), c, log, g)
						if err != nil || incomplete != "" {
							t.Fatal(incomplete, err)
						}
						t.Logf("updates only %-5v %6d revisions %6d objects, %6d of them busy, share %.1f: %6d changes, %6d requests: "+
							"%6d sizes %6d objects %6d pages of names %5d pages of past lists with %8d objects, %d of names; %.0f s", updates, revisions, objects, n, share, len(plan), c.sizeReads+c.objects+c.pages+c.full, c.sizeReads, c.objects, c.pages, c.full, c.listed, c.named, 2e-3*float64(c.sizeReads+c.objects+c.pages+c.full)+7e-3*float64(c.sizeReads)*float64(objects)/50_000+8e-6*float64(c.named)+13e-6*float64(c.listed))
					}
				}
			}
		}
	}
}

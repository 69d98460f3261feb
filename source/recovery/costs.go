package recovery

import (
	"sync"
	"time"
)

// costs are what reads cost, in seconds: how much later a recovery ends for each read, while other recoveries run. The best read
// for its time depends on the server, on the rate that the limiter allows and on the collection. So the costs are measured while
// the recovery runs. The costs affect only what is read, never the result.
type costs struct {
	read    float64 // one object
	size    float64 // the collection's size
	counted float64 // what each object adds to size, since etcd counts every object. It is used until size is measured
	named   float64 // each object of a list of names
	bodied  float64 // each object of a list with bodies
}

// tuning decides which reads a recovery makes. Only tests that force a choice change it.
type tuning struct {
	costs      costs   // to begin with
	given      bool    // the costs are not measured: a history in memory takes no time
	worthwhile float64 // how many reads a past list must save at least
}

var production = tuning{costs: firstCosts, worthwhile: 4}

// firstCosts are the costs of kube-apiserver 1.36 and etcd on two cores, with objects of 560 bytes. A read costs as much as at
// 500 requests a second. Past lists are chosen before single reads are measured, when the limiter does not yet allow as many.
var firstCosts = costs{read: 2e-3, size: 2e-3, counted: 1e-7, named: 8e-6, bodied: 13e-6}

func (c *costs) listCost(objects int64, bodies bool) float64 {
	each := c.named
	if bodies {
		each = c.bodied
	}
	return c.read*float64(1+objects/largestPage) + each*float64(objects)
}

// newMeter begins with the costs of the tuning, for a collection of so many objects.
func newMeter(t *tuning, objects int64) *meter {
	m := &meter{costs: t.costs, given: t.given}
	m.costs.size += m.costs.counted * float64(objects)
	return m
}

// meter measures the costs. Requests that run at the same time share the time that passes.
type meter struct {
	mu      sync.Mutex
	costs   costs
	given   bool // the costs are not measured
	running int
	shared  float64 // what a request that ran from the start on would have cost
	since   time.Time
}

// begin and end are called around a request, or the pages of a list. end returns the cost of the request or list, in seconds.
func (m *meter) begin() (from float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pass()
	m.running++
	return m.shared
}

func (m *meter) end(from float64) (cost float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pass()
	m.running--
	return m.shared - from
}

// pass accounts for the time since the last call. Its callers hold the lock.
func (m *meter) pass() {
	now := time.Now()
	if m.running > 0 {
		m.shared += now.Sub(m.since).Seconds() / float64(m.running)
	}
	m.since = now
}

// learn moves a cost towards a new measurement, by a part of the difference.
func (m *meter) learn(cost *float64, new, part float64) {
	if m.given {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	*cost += (new - *cost) * part
}

// learnList learns the cost of an object in a list. A short list costs its request, and says little about that.
func (m *meter) learnList(each *float64, cost float64, objects int) {
	if cost -= m.now().read; objects >= 100 && cost > 0 {
		m.learn(each, cost/float64(objects), 0.25)
	}
}

func (m *meter) now() costs {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.costs
}

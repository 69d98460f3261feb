package main

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// world is all that the API server has, with its complete history: each version can be read, and each watch can resume.
type world struct {
	mu          sync.Mutex
	collections []*collection
	sent        []*version // by resourceVersion, from firstVersion on
}

const firstVersion = 10_000_001

// collection is what there is of one resource.
type collection struct {
	resource
	*world
	life    life
	objects []*object // by id, with the deleted ones. The order of ids is the order of names
	ending  int       // the oldest one that no turn has ended
	log     []*version
	changed *sync.Cond
}

type object struct {
	*collection
	id      int
	own     string     // text that no other object has
	uid     string     // made of it
	turned  int        // states of its loop, so far
	history []*version // oldest first
}

// version is one state of an object.
type version struct {
	*object
	number uint64 // the resourceVersion
	state  int
	time   time.Time
}

func (w *world) add(r resource, l life) *collection {
	c := &collection{resource: r, world: w, life: l, changed: sync.NewCond(&w.mu)}
	for range r.alive {
		c.create().move(r.rest())
	}
	return c
}

func (c *collection) create() *object {
	h := fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, c.Plural, len(c.objects))))
	uid := fmt.Sprintf("%s-%s-4%s-8%s-%s", h[:8], h[8:12], h[12:15], h[15:18], h[18:30])
	c.objects = append(c.objects, &object{collection: c, id: len(c.objects), own: h, uid: uid})
	return c.objects[len(c.objects)-1]
}

// move gives an object its next state.
func (o *object) move(state int) {
	v := &version{o, firstVersion + uint64(len(o.sent)), state, time.Now().UTC()}
	o.sent, o.history, o.log = append(o.sent, v), append(o.history, v), append(o.log, v)
	o.changed.Broadcast()
}

// newest is the newest resourceVersion.
func (w *world) newest() uint64 { return firstVersion + uint64(len(w.sent)) - 1 }

// versionAt returns an object's version at a resourceVersion, or nil if there was none.
func (o *object) versionAt(number uint64) *version {
	for i := len(o.history) - 1; i >= 0; i-- {
		if v := o.history[i]; v.number <= number {
			if v.kind() == "DELETED" {
				return nil
			}
			return v
		}
	}
	return nil
}

// kind is the type of the event that shows the version.
func (v *version) kind() string { return v.life.types[v.state] }

// render appends the object as a watch or a list shows it.
func (v *version) render(dst []byte) []byte {
	return v.life.states[v.state].render(dst, v, func(state int) time.Time {
		for i := len(v.history) - 1; i >= 0; i-- {
			if h := v.history[i]; h.number <= v.number && h.state == state {
				return h.time
			}
		}
		return v.history[0].time
	})
}

// live makes changes until a time, and returns when all turns that have begun are complete. Turns come at random moments, like many
// kubelets'. The states of one turn follow each other after a second.
func (w *world) live(until time.Time) {
	var turns sync.WaitGroup
	for _, c := range w.collections {
		if c.turns > 0 && len(c.objects) > 0 {
			turns.Go(func() { c.live(until, &turns) })
		}
	}
	turns.Wait()
}

func (c *collection) live(until time.Time, turns *sync.WaitGroup) {
	next := time.Now()
	for {
		next = next.Add(time.Duration(rand.ExpFloat64() / c.turns * float64(time.Second)))
		if next.After(until) {
			return
		}
		time.Sleep(time.Until(next))
		c.turn(next, turns)
	}
}

// turn begins a turn.
func (c *collection) turn(begins time.Time, turns *sync.WaitGroup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.steps > 0 {
		o := c.objects[rand.N(len(c.objects))]
		var states []int
		for ; len(states) < c.steps; o.turned++ {
			states = append(states, c.loop[o.turned%len(c.loop)])
		}
		turns.Go(func() { o.pass(states, begins) })
		return
	}
	created, oldest := c.create(), c.objects[c.ending]
	c.ending++
	turns.Go(func() { created.pass(c.begins, begins) })
	turns.Go(func() { oldest.pass(c.ends, begins) })
}

func (o *object) pass(states []int, moment time.Time) {
	for i, state := range states {
		time.Sleep(time.Until(moment.Add(time.Duration(i) * time.Second)))
		o.mu.Lock()
		o.move(state)
		o.mu.Unlock()
	}
}

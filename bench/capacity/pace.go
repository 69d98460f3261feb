package main

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"time"
)

// step is one thing that will happen to a collection.
type step struct {
	at time.Time
	do func()
}

type agenda []step

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a agenda) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)        { *a = append(*a, x.(step)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// pace makes changes until a time: turns come at random moments, as those of many kubelets do, and the states of one turn
// follow each other after a second.
type pace struct {
	*apiServer
	agenda agenda
	random *rand.Rand
	until  time.Time
}

func (s *apiServer) run(ctx context.Context, until time.Time) {
	p := &pace{apiServer: s, until: until, random: rand.New(rand.NewPCG(1, 2))}
	for _, c := range s.collections {
		p.plan(c, time.Now())
	}
	for ctx.Err() == nil && len(p.agenda) > 0 {
		time.Sleep(time.Until(p.agenda[0].at))
		next := heap.Pop(&p.agenda).(step)
		s.mu.Lock()
		next.do()
		s.mu.Unlock()
	}
}

func (p *pace) later(at time.Time, do func()) { heap.Push(&p.agenda, step{at, do}) }

// plan plans a collection's next turn.
func (p *pace) plan(c *collection, after time.Time) {
	if c.turns == 0 || len(c.objects) == 0 {
		return
	}
	at := after.Add(time.Duration(p.random.ExpFloat64() / c.turns * float64(time.Second)))
	if at.Before(p.until) {
		p.later(at, func() { p.turn(c, at); p.plan(c, at) })
	}
}

func (p *pace) turn(c *collection, at time.Time) {
	if c.steps > 0 {
		p.takeOn(c, c.objects[p.random.IntN(len(c.objects))], at)
		return
	}
	oldest := c.objects[c.ending]
	c.ending++
	p.pass(c, c.add(), c.begins, at)
	p.pass(c, oldest, c.ends, at)
}

// takeOn moves an object on by some states of its loop.
func (p *pace) takeOn(c *collection, o *object, at time.Time) {
	var states []int
	for range c.steps {
		states = append(states, c.loop[o.turned%len(c.loop)])
		o.turned++
	}
	p.pass(c, o, states, at)
}

func (p *pace) pass(c *collection, o *object, states []int, at time.Time) {
	for i, state := range states {
		p.later(at.Add(time.Duration(i)*time.Second), func() { c.move(o, state) })
	}
}

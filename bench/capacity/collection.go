package main

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"
)

// collection is the state of one resource with its whole history, so that any version can be read and any watch can resume.
type collection struct {
	resource
	life    life
	changed *sync.Cond
	objects []*object // by id, also those that are gone; the order of ids is that of names
	first   int       // the oldest object that lives
	ending  int       // the oldest one that no turn has taken
	log     []*version
	world   *world
}

type object struct {
	*collection
	id       int
	history  []version // oldest first
	turned   int       // states of its loop, so far
	selfText string
}

// version is one state of an object.
type version struct {
	object *object
	number uint64 // the resourceVersion
	state  int
	at     time.Time
}

// world is what all collections have in common.
type world struct {
	mu   sync.Mutex
	next uint64    // resourceVersion
	sent []version // by resourceVersion, from firstVersion on
}

const firstVersion = 10_000_001

func (w *world) collection(r resource, l life) *collection {
	c := &collection{resource: r, life: l, changed: sync.NewCond(&w.mu), world: w}
	for range r.alive {
		c.move(c.add(), r.rest())
	}
	return c
}

// add makes an object that has no state yet.
func (c *collection) add() *object {
	o := &object{collection: c, id: len(c.objects)}
	c.objects = append(c.objects, o)
	return o
}

// move gives an object its next state.
func (c *collection) move(o *object, state int) {
	w := c.world
	v := version{object: o, number: firstVersion + uint64(len(w.sent)), state: state, at: time.Now().UTC()}
	w.sent = append(w.sent, v)
	o.history = append(o.history, v)
	c.log = append(c.log, &v)
	for c.first < len(c.objects) && c.objects[c.first].gone() {
		c.first++
	}
	c.changed.Broadcast()
}

func (w *world) version() uint64 { return firstVersion + uint64(len(w.sent)) - 1 }

func (o *object) gone() bool {
	n := len(o.history)
	return n > 0 && o.life.types[o.history[n-1].state] == "DELETED"
}

// at is the newest state up to a version; nil: there was none.
func (o *object) at(number uint64) *version {
	for i := len(o.history) - 1; i >= 0; i-- {
		if v := &o.history[i]; v.number <= number {
			if o.life.types[v.state] == "DELETED" {
				return nil
			}
			return v
		}
	}
	return nil
}

// render renders an object as a watch or a list shows it.
func (v *version) render(dst []byte) []byte {
	o := v.object
	return o.life.states[v.state].render(dst, o, v.number, func(state int) time.Time {
		for i := len(o.history) - 1; i >= 0; i-- {
			if h := &o.history[i]; h.number <= v.number && h.state == state {
				return h.at
			}
		}
		return o.history[0].at
	})
}

func (v *version) op() string {
	switch v.object.life.types[v.state] {
	case "ADDED":
		return "c"
	case "DELETED":
		return "d"
	}
	return "u"
}

// own is text that no other object has.
func (o *object) own() string {
	if o.selfText == "" {
		o.selfText = fmt.Sprintf("%x", sha256.Sum256([]byte(o.Plural+fmt.Sprint(o.id))))
	}
	return o.selfText
}

func (o *object) uid() string {
	h := o.own()
	return fmt.Sprintf("%s-%s-4%s-8%s-%s", h[:8], h[8:12], h[12:15], h[15:18], h[18:30])
}

package synthetic

import (
	"sync"
)

// collection is the state of one resource: objects first..next-1, each at a version. Events are made when they are
// sent, by the one watch that the collection has.
type collection struct {
	kind   string
	plural string
	pods   []pod

	mu      sync.Mutex
	changed *sync.Cond
	first   int      // the oldest object that lives
	next    int      // the id of the next object
	bodies  [][]byte // of all objects, rendered
	version uint64   // of the collection
	pending int      // events that were asked for and not sent yet
	expired bool     // the next watch event is a 410
	sent    int      // events so far; tells which kind the next one is
}

// firstVersion leaves room so that versions do not change their length.
const firstVersion = 10_000_000

func newCollection(kind, apiVersion, plural string, objects int) *collection {
	c := &collection{kind: kind, plural: plural, next: objects, version: firstVersion + uint64(objects)}
	c.changed = sync.NewCond(&c.mu)
	for d := range min(deployments, max(objects, 1)) {
		c.pods = append(c.pods, newPod(kind, apiVersion, d))
	}
	for id := range objects {
		c.grow(id)
		c.stamp(id, firstVersion+uint64(id))
	}
	return c
}

// grow renders object id, the next one. Rendering is done before it counts: an event only copies.
func (c *collection) grow(id int) {
	c.bodies = append(c.bodies, c.pods[id%len(c.pods)].append(make([]byte, 0, 4600), id))
}

func (c *collection) stamp(id int, version uint64) {
	c.pods[id%len(c.pods)].stamp(c.bodies[id], version)
}

// appendEvent makes the next change: of twenty, one creates, one deletes and the others update.
func (c *collection) appendEvent(dst []byte) []byte {
	c.version++
	c.sent++
	kind, id := "MODIFIED", c.first+int(mix(c.version)%uint64(c.next-c.first))
	switch {
	case c.sent%20 == 0:
		kind, id = "ADDED", c.next
		c.next++
		c.grow(id)
	case c.sent%20 == 10 && c.next-c.first > 1:
		kind, id = "DELETED", c.first
		c.first++
	}
	c.stamp(id, c.version)
	dst = append(append(append(dst, `{"type":"`...), kind...), `","object":`...)
	return append(append(dst, c.bodies[id]...), "}\n"...)
}

// touch returns one object in so many a new version without an event, as if the watch had missed it.
func (c *collection) touch(every int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := c.first; every > 0 && id < c.next; id += every {
		c.version++
		c.stamp(id, c.version)
	}
	c.version++
}

// expire ends the watch with a 410.
func (c *collection) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expired = true
	c.changed.Broadcast()
}

// send asks for events, and gives the version of the last one.
func (c *collection) send(events int) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending += events
	c.changed.Broadcast()
	return c.version + uint64(c.pending)
}

package synthetic

import (
	"sync"
)

// collection is the state of one resource: objects first..next-1, each at a version. Only versions are held, so that a
// million objects take 8 MB: a body is rendered when it is sent. Events are made when they are sent, by the one watch that
// the collection has.
type collection struct {
	kind   string
	plural string
	pods   []pod

	mu       sync.Mutex
	changed  *sync.Cond
	first    int            // the oldest object that lives
	next     int            // the id of the next object
	versions []uint64       // versions of all objects
	rewrites int            // so many of a hundred updates that a watch sends write the texts of their object anew
	texts    map[int]uint64 // the version that wrote an object's texts last
	version  uint64         // version of the collection
	pending  int            // events that were asked for and not sent yet
	expired  bool           // the next watch event is a 410
	made     int            // changes so far; tells which kind the next one is
	missed   []missed       // the changes that no watch has sent, since the last one that a watch has sent
	oldest   uint64         // the oldest version that can be read: the last that a watch has sent
}

// missed is a change that no watch has sent.
type missed struct {
	kind            string
	id              int
	version, before uint64
}

// firstVersion leaves room so that versions do not change their length.
const firstVersion = 10_000_000

func newCollection(kind, apiVersion, plural string, objects int) *collection {
	version := firstVersion + uint64(objects)
	c := &collection{kind: kind, plural: plural, next: objects, version: version, oldest: version, texts: map[int]uint64{}}
	c.changed = sync.NewCond(&c.mu)
	for d := range min(deployments, max(objects, 1)) {
		c.pods = append(c.pods, newPod(kind, apiVersion, d))
	}
	for id := range objects {
		c.versions = append(c.versions, firstVersion+uint64(id))
	}
	return c
}

// appendObject renders an object as it is at a version.
func (c *collection) appendObject(dst []byte, id int, version uint64) []byte {
	p, start := c.pods[id%len(c.pods)], len(dst)
	dst = p.append(dst, id)
	p.stamp(dst[start:], version, c.texts[id])
	return dst
}

// change makes the next change: of twenty, one creates, one deletes and the others update.
func (c *collection) change() missed {
	c.version++
	c.made++
	m := missed{kind: "MODIFIED", id: c.first + int(mix(c.version)%uint64(c.next-c.first)), version: c.version}
	switch {
	case c.made%20 == 0:
		m.kind, m.id = "ADDED", c.next
		c.next++
		c.versions = append(c.versions, 0)
	case c.made%20 == 10 && c.next-c.first > 1:
		m.kind, m.id = "DELETED", c.first
		c.first++
	}
	c.update(&m)
	return m
}

func (c *collection) update(m *missed) {
	m.before = c.versions[m.id]
	c.versions[m.id] = m.version
}

// appendEvent makes the next change and its event.
func (c *collection) appendEvent(dst []byte) []byte {
	m := c.change()
	c.missed, c.oldest = nil, m.version
	if m.kind == "MODIFIED" && int(mix(m.version)>>32%100) < c.rewrites {
		c.texts[m.id] = m.version
	}
	dst = append(append(append(dst, `{"type":"`...), m.kind...), `","object":`...)
	return append(c.appendObject(dst, m.id, m.version), "}\n"...)
}

// miss makes changes without an event, as if the watch had missed them.
func (c *collection) miss(changes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range changes {
		c.missed = append(c.missed, c.change())
	}
}

// touch updates one object in so many without an event.
func (c *collection) touch(every int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := c.first; every > 0 && id < c.next; id += every {
		c.version++
		m := missed{kind: "MODIFIED", id: id, version: c.version}
		c.update(&m)
		c.missed = append(c.missed, m)
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

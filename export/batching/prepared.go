package batching

import (
	"slices"
	"unsafe"

	"kubecdc/change"
)

// Prepared is a batch that is about to be written. Its memory is used again for a later batch.
type Prepared struct {
	*change.Batch
	Objects
	Offsets change.Offsets // to commit with the batch, later including the offsets after its records
	Blocks  Blocks         // before-images that are not elsewhere
	written []change.Change
}

// ObjectID identifies an object: its stream, and its key there.
type ObjectID struct {
	Stream change.StreamID
	Key    string
}

// Objects are the objects that a batch changes, each once.
type Objects struct {
	All     []Object
	changed []int            // by change, the number of its object
	index   map[ObjectID]int // number of each object
}

// Object is an object that a batch changes. LeaveOut finds out its state in the log after each change.
type Object struct {
	ID          ObjectID
	First, Last int // its first and last change in the collected batch
	UID         string
	Version     change.ResourceVersion // its version in the API server
	State       []byte                 // its state in the log before the batch, or nil if it was deleted
	Written     int                    // its last change in the written batch, or -1
	Deleted     bool
	LeftOut     bool // the last change is not written
	Follows     bool // State is from the batch before, which the memory did not have yet
	Found       any  // what the memory knows of State
}

// Find finds the objects of the batch.
func (p *Prepared) Find() {
	if p.index == nil {
		p.index = make(map[ObjectID]int, len(p.Changes))
	}
	clear(p.index)
	p.All, p.changed = p.All[:0], p.changed[:0]
	for i := range p.Changes {
		c := &p.Changes[i]
		id := ObjectID{c.Stream.ID(), c.Key()}
		n, again := p.index[id]
		if !again {
			n = len(p.All)
			p.index[id], p.All = n, append(p.All, Object{ID: id, First: i, Written: -1})
		}
		p.All[n].Last, p.changed = i, append(p.changed, n)
	}
}

// Follow takes before-images from the states after the previous batch, while that is being written. It copies them, since the
// memory of the previous batch is used again before this batch is durable.
func (p *Prepared) Follow(before *Prepared) {
	for i := range p.All {
		o := &p.All[i]
		n, ok := before.index[o.ID]
		c := p.First(o)
		if !ok || c == nil {
			continue
		}
		o.Follows = true
		if state := before.All[n].State; state != nil {
			c.Before = append(p.Blocks.Memory(len(state)), state...)
		}
	}
}

// HasStubs reports whether the sink has written stubs in place of states. The next batch must then follow the stubs.
func (p *Prepared) HasStubs() bool {
	return slices.ContainsFunc(p.All, func(o Object) bool {
		return o.Written >= 0 && !IsSame(o.State, p.Changes[o.Written].After)
	})
}

// IsSame reports whether two states are the same memory.
func IsSame(a, b []byte) bool { return len(a) == len(b) && unsafe.SliceData(a) == unsafe.SliceData(b) }

// Release gives up the batch's memory, once the states in it are copied.
func (p *Prepared) Release() {
	p.Blocks.Release()
	clear(p.All)
	clear(p.written)
}

// Number returns the index in All of an object of the batch.
func (p *Prepared) Number(id ObjectID) int { return p.index[id] }

// First returns the first change of an object, if the memory may have its before-image.
func (p *Prepared) First(o *Object) *change.Change {
	if c := &p.Changes[o.First]; !o.Follows && (c.Op == change.Update || c.Op == change.Delete) {
		return c
	}
	return nil
}

// LeaveOut sets the before-images that come from the batch itself, and removes the changes that are not written. The collected
// changes remain as they were. It returns how many it removed, by resource.
func (p *Prepared) LeaveOut(isLeftOut func(*change.Change) bool, images bool) map[string]int {
	ignored, left, written := map[string]int{}, 0, p.written[:0]
	for i := range p.Changes {
		c, o := &p.Changes[i], &p.All[p.changed[i]]
		if i > o.First && images && (c.Op == change.Update || c.Op == change.Delete) {
			c.Before = o.State
		}
		if c.Logged && c.Before == nil { // otherwise the body was on its way when the store seemed to lack it
			c.Before = c.After
		}
		o.UID, o.Version = c.UID, c.ResourceVersion
		if o.LeftOut = isLeftOut(c); o.LeftOut {
			o.State = c.Before
			if left == i { // the first one
				written = append(written, p.Changes[:i]...)
			}
			if !c.Logged {
				ignored[c.Stream.Resource.ID()]++
			}
			continue
		}
		o.State, o.Deleted, o.Written = c.After, c.Op == change.Delete, left
		if left < i {
			written = append(written, *c)
		}
		left++
	}
	if left < len(p.Changes) {
		p.Changes, p.written = written, written
	}
	return ignored
}

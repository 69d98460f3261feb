package batching

import "kubecdc/change"

// Prepared is a batch that is about to be written.
type Prepared struct {
	*change.Batch
	Objects
	Offsets change.Offsets // that move with the batch besides those of its records; once it is written, with those
	Written func()         // is called once the sink has the batch
}

// ObjectID is the place of an object: its stream, and its key there.
type ObjectID struct {
	Stream change.StreamID
	Key    string
}

// Objects has the objects that a batch changes, each once. Its memory is used again for each batch.
type Objects struct {
	All     []Object
	changed []int            // by change: the number of its object
	index   map[ObjectID]int // the number of an object
}

// Object is an object that a batch changes. LeaveOut finds out what the log has of it after each change.
type Object struct {
	ID          ObjectID
	First, Last int // of its changes, as the batch was collected
	UID         string
	Version     change.ResourceVersion // as the API server has it
	State       []byte                 // as the log has it before the batch is written; nil: it was deleted
	Written     int                    // its last change in the batch that is written; -1: none
	Deleted     bool
	LeftOut     bool // the last change is not written
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

// Number is the place in All of an object of the batch.
func (p *Prepared) Number(id ObjectID) int { return p.index[id] }

// First returns the first change of an object, if that may have a state before.
func (p *Prepared) First(o *Object) *change.Change {
	if c := &p.Changes[o.First]; c.Op == change.Update || c.Op == change.Delete {
		return c
	}
	return nil
}

// LeaveOut sets the before-images that come from the batch itself, and takes out of it the changes that are not written. It returns
// how many these are, by resource.
func (p *Prepared) LeaveOut(isLeftOut func(*change.Change) bool, images bool) map[string]int {
	ignored, kept := map[string]int{}, 0
	for i := range p.Changes {
		c, o := &p.Changes[i], &p.All[p.changed[i]]
		if i > o.First && images && (c.Op == change.Update || c.Op == change.Delete) {
			c.Before = o.State
		}
		if c.Logged && c.Before == nil { // else the body was on its way when the store seemed to lack it
			c.Before = c.After
		}
		o.UID, o.Version = c.UID, c.ResourceVersion
		if o.LeftOut = isLeftOut(c); o.LeftOut {
			o.State = c.Before
			if !c.Logged {
				ignored[c.Stream.Resource.ID()]++
			}
			continue
		}
		o.State, o.Deleted, o.Written = c.After, c.Op == change.Delete, kept
		if kept < i {
			p.Changes[kept] = *c
		}
		kept++
	}
	clear(p.Changes[kept:])
	p.Changes = p.Changes[:kept]
	return ignored
}

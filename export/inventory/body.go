package inventory

import (
	"cmp"
	"sync/atomic"

	"kubecdc/checkpoint"
	"kubecdc/export/batching"
)

// body is the body of an object that changes often. The checkpoint packs it when it commits, as a delta to the base in the store.
// So twenty changes since the last commit are one delta.
//
// The slot sets state. Once it is deferred, only commits use base, one after the other.
type body struct {
	state     []byte   // after the last durable batch
	in        *pending // commit that also has the state
	base      []byte   // packed, as in the store after the commit in flight, or nil
	baseBytes atomic.Int64
	lastBytes atomic.Int64 // size of what the last commit stored
	delta     []byte       // in the store, or pending and newer
	asked     bool         // often is known: whether to cache the object
	often     bool
	next      []byte          // the state after the batch (unless the batch's only update is left out), or nil if base is known
	updated   checkpoint.Body // what to store for next
	size      int64           // in the cache
	deferred  bool            // it is or was pending
}

// set copies a state that becomes pending. It reuses the memory of the former state, unless that may be in flight.
func (b *body) set(state []byte, in *pending) {
	if b.in != in || cap(b.state) < len(state) || cap(b.state) > 2*len(state) {
		b.state, b.in = nil, in
	}
	b.state = append(b.state[:0], state...)
}

// update returns what to store for a new state. nil is the body of an object that the store does not have.
func (b *body) update(state []byte) checkpoint.Body {
	switch {
	case b == nil:
		return checkpoint.Pack(state)
	case b.next == nil:
		return checkpoint.Body{Base: b.base}.Update(state)
	case batching.IsSame(state, b.next):
		return b.updated
	case batching.IsSame(state, b.state): // the update was left out
		return checkpoint.Again(state, b.delta)
	}
	return checkpoint.Pack(state) // the sink has written a stub
}

// stored returns about how much the next commit stores. A packed state takes half as much as a plain one, or less.
func (b *body) stored() int64 { return cmp.Or(b.lastBytes.Load(), int64(len(b.state)/2)) }

// commit returns what to store for a pending state. A nil base means that the store has it.
func (b *body) commit(state, base []byte) checkpoint.Body {
	stored := b.update(state)
	b.lastBytes.Store(int64(stored.Len()))
	if stored.KeepsBase() {
		stored.Base = base
		return stored
	}
	b.base = stored.Base
	b.baseBytes.Store(int64(len(b.base)))
	return stored
}

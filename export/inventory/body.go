package inventory

import (
	"sync/atomic"

	"kubecdc/checkpoint"
)

// body is the body of an object that changes often. The checkpoint packs it when it commits it, as a delta of the base that the store has then:
// of twenty changes since the last commit it makes one delta.
//
// The slot sets state. Once it is deferred, only commits use base, one after the other.
type body struct {
	state     []byte   // after the last batch that is durable
	in        *pending // that has the state too
	base      []byte   // packed, as the store has it, or will have it once the commit in flight has ended; nil: none
	baseBytes atomic.Int64
	delta     []byte // that is pending, and newer than what is read from the store
	size      int64  // in the cache
	deferred  bool   // it was pending, and may be
}

// set copies a state that becomes pending. The memory of the former one is used again, unless that may be in flight.
func (b *body) set(state []byte, in *pending) {
	if b.in != in || cap(b.state) < len(state) || cap(b.state) > 2*len(state) {
		b.state, b.in = nil, in
	}
	b.state = append(b.state[:0], state...)
}

// update returns what the store gets of a new state. Nil is the body of an object that the store does not have.
func (b *body) update(state []byte) checkpoint.Body {
	if b == nil {
		return checkpoint.Pack(state)
	}
	return checkpoint.Body{Base: b.base}.Update(state)
}

// commit returns what the store gets of a state that is pending, with a base that is pending too; nil: the store has it.
func (b *body) commit(state, base []byte) checkpoint.Body {
	stored := b.update(state)
	if stored.KeepsBase() {
		stored.Base = base
		return stored
	}
	b.base = stored.Base
	b.baseBytes.Store(int64(len(b.base)))
	return stored
}

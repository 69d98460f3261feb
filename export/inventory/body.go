package inventory

import (
	"sync/atomic"

	"kubecdc/checkpoint"
)

// body is the body of an object that changes often. The checkpoint packs it when it commits it, as a delta of the base that the store has then:
// of twenty changes since the last commit it makes one delta.
//
// The slot writes state, which is not changed but replaced. Once it is deferred, only commits use base, one after the other.
type body struct {
	state     []byte
	base      []byte // packed, as the store has it, or will have it once the commit in flight has ended; nil: none
	baseBytes atomic.Int64
	delta     []byte       // that is pending, and newer than what is read from the store
	takes     atomic.Int64 // about so many bytes in the next commit: as many as in the last one
	size      int64        // in the cache
	deferred  bool         // it was pending, and may be
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
	} else {
		b.base = stored.Base
		b.baseBytes.Store(int64(len(b.base)))
	}
	b.takes.Store(int64(stored.Len()))
	return stored
}

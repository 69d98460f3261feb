package inventory

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
)

// bodies sets the before-images of changes, and makes the bodies that the store gets: deltas of the bases that it has. The bodies of objects
// that change often are cached as the store has them, packed, up to CacheBytes, in the same memory as what is pending for the
// checkpoint; others are read from the store, in one query per stream and batch.
//
// A body passes the stream's redactor again. That changes nothing, unless the database has forgotten that it was redacted there.
type bodies struct {
	*Inventory
	cache    *simplelru.LRU[batching.ObjectID, checkpoint.Body]
	bytes    int64
	changed  [2048]uint64 // hashes of objects that changed, each in its place
	unpacked unpacked
	work     []bodyWork // by number of an object in the batch
}

// bodyWork is what is known of an object's body while its batch is prepared.
type bodyWork struct {
	loaded bool            // it was read from the store, so it is known that the object changes
	delta  []byte          // that is pending, and newer than the one that is read
	base   []byte          // of the body in the store, if it is kept until it is known what is written
	body   checkpoint.Body // of the state after the last change, made while the base was at hand
}

func newBodies(v *Inventory) *bodies {
	b := &bodies{Inventory: v}
	b.cache, _ = simplelru.NewLRU(1<<20, func(id batching.ObjectID, body checkpoint.Body) { b.bytes -= cacheSize(id, body) })
	return b
}

// attach sets Before of the first update or delete of each object in the batch, valid until written is called, and makes the object's
// new body. The before-images of others come from the batch itself (batching.Prepared.LeaveOut).
func (b *bodies) attach(ctx context.Context, p *batching.Prepared) error {
	b.work = b.work[:0]
	b.workOn(p)
	keys := map[change.StreamID][]string{}
	for i := range p.All {
		c, id, w := p.First(&p.All[i]), p.All[i].ID, &b.work[i]
		if c == nil {
			continue
		}
		body, ok := b.cache.Get(id)
		if !ok {
			if body, ok = b.checkpoints.body(id); !ok || body.KeepsBase() {
				keys[id.Stream], w.loaded, w.delta = append(keys[id.Stream], id.Key), true, body.Delta
				continue
			}
			b.put(id, body)
		}
		if body.IsZero() {
			continue
		}
		base, before, err := b.unpacked.unpack(body, b.KeepBases)
		if err != nil {
			return err
		}
		c.Before = before
		w.setBase(&p.Changes[p.All[i].Last], base, b.KeepBases)
	}
	for stream, keys := range keys {
		if err := b.load(ctx, p, stream, keys); err != nil {
			return fmt.Errorf("read %d before-images of %s: %w", len(keys), stream, err)
		}
	}
	return nil
}

// workOn returns what is known of the batch's bodies: nothing, if attach was not called.
func (b *bodies) workOn(p *batching.Prepared) []bodyWork {
	if n := len(p.All); len(b.work) != n {
		b.work = slices.Grow(b.work[:0], n)[:n]
		clear(b.work)
	}
	return b.work
}

// load reads the bodies of objects from the checkpoint, and sets Before of their changes.
func (b *bodies) load(ctx context.Context, p *batching.Prepared, stream change.StreamID, keys []string) error {
	redact := b.Redactor(stream)
	return b.stored(ctx, stream, keys, func(key string, stored checkpoint.Body) error {
		id := batching.ObjectID{Stream: stream, Key: key}
		n := p.Number(id)
		o, w := &p.All[n], &b.work[n]
		first := &p.Changes[o.First]
		if w.delta != nil {
			stored.Delta = w.delta
		}
		base, body, err := b.unpacked.unpack(stored, b.KeepBases)
		if err != nil {
			return fmt.Errorf("body: %q: %w", key, err)
		}
		if redact != nil {
			redacted := redact(key, body)
			first.Before = redacted
			if !bytes.Equal(redacted, body) {
				w.loaded = false
				return nil // and the object gets a new base
			}
		}
		first.Before = body
		w.setBase(&p.Changes[o.Last], base, b.KeepBases)
		if b.often(id) {
			b.put(id, checkpoint.Body{Base: bytes.Clone(stored.Base), Delta: bytes.Clone(stored.Delta)})
		}
		return nil
	})
}

// setBase takes the base that the store has of an object's body, or will have of what is pending. If all changes are written, the new body
// is made of it at once, and the base need not be kept.
func (w *bodyWork) setBase(last *change.Change, base []byte, keep bool) {
	switch {
	case keep:
		w.base = base
	case last.Op != change.Delete:
		w.body = checkpoint.Update(base, last.After)
	}
}

// newBody returns what the store gets of an object's new body: a delta, if its base is known. A sink may have written a stub in its place.
func (w *bodyWork) newBody(p *batching.Prepared, o *batching.Object) checkpoint.Body {
	state := o.State
	if o.Written >= 0 {
		state = p.Changes[o.Written].After
	}
	switch {
	case w.base != nil:
		return checkpoint.Update(w.base, state)
	case !o.LeftOut && !w.body.IsZero() && !change.IsStub(state):
		return w.body
	}
	return checkpoint.Pack(state)
}

// written caches the bodies of a durable batch, and releases its before-images.
func (b *bodies) written(objects []objectState) {
	b.unpacked.Release()
	b.work = b.work[:0]
	for i := range objects {
		id, body := batching.ObjectID{Stream: objects[i].stream, Key: objects[i].Key}, objects[i].Body
		former, known := b.cache.Peek(id)
		switch {
		case objects[i].deleted:
			b.cache.Remove(id)
		case body.KeepsBase() && known:
			body.Base = former.Base
			b.put(id, body)
		case !body.KeepsBase() && (known || !objects[i].loaded && b.often(id)):
			b.put(id, body)
		}
	}
}

// often notes a change of an object, and reports whether one was noted before, and since then none of another object in its place. So
// what changes once pushes nothing out of the cache.
func (b *bodies) often(id batching.ObjectID) bool {
	hash := maphash.Comparable(objectSeed, id)
	last := &b.changed[hash%uint64(len(b.changed))]
	same := *last == hash
	*last = hash
	return same
}

var objectSeed = maphash.MakeSeed()

func (b *bodies) put(id batching.ObjectID, body checkpoint.Body) {
	if old, ok := b.cache.Peek(id); ok {
		b.bytes -= cacheSize(id, old)
	}
	b.cache.Add(id, body)
	b.bytes += cacheSize(id, body)
	for b.bytes > b.CacheBytes && b.cache.Len() > 0 {
		b.cache.RemoveOldest()
	}
}

func cacheSize(id batching.ObjectID, body checkpoint.Body) int64 {
	return int64(len(id.Stream) + len(id.Key) + body.Len())
}

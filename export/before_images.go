package export

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/dependency"
)

// beforeImages sets the before-images of changes, and finds the bases that deltas are made of. The bodies of objects that change
// often are cached as the checkpoint has them, packed, up to maxBytes, in the same memory as what is pending for the
// checkpoint; others are read from the checkpoint, in one query per stream and batch. A log that gives bodies itself (sinks.Bodies) is
// asked for all of them.
//
// A body passes the stream's redactor again. That changes nothing, unless the log has it by earlier rules, or the database has
// forgotten that it was redacted there.
type beforeImages struct {
	store       *readTracker
	redactorFor func(stream change.StreamID) bodyRedactor
	cache       *simplelru.LRU[objectID, checkpoint.Body]
	bytes       int64
	maxBytes    int64
	changed     [2048]uint64 // hashes of objects that changed, each in its place
	unpacked    unpacked
	first       []*change.Change // of each object in a batch
	keepBases   bool             // it is not known yet which changes are written
}

func newBeforeImages(store *readTracker, redactorFor func(stream change.StreamID) bodyRedactor, maxBytes int64) *beforeImages {
	b := &beforeImages{store: store, redactorFor: redactorFor, maxBytes: maxBytes}
	b.cache, _ = simplelru.NewLRU(1<<20, func(id objectID, body checkpoint.Body) { b.bytes -= cacheSize(id, body) })
	return b
}

// attach sets Before of the first update or delete of each object in the batch, valid until written is called, and makes the object's
// new body. The before-images of others come from the batch itself (touched.leaveOut).
func (b *beforeImages) attach(ctx context.Context, batch *change.Batch, objects *touched) error {
	if b.store.log != nil {
		return b.ofLog(ctx, batch, objects)
	}
	keys := map[change.StreamID][]string{}
	for i := range objects.objects {
		o := &objects.objects[i]
		c, id := &batch.Changes[o.first], o.id
		if c.Op != change.Update && c.Op != change.Delete {
			continue
		}
		body, ok := b.cache.Get(id)
		if !ok {
			if body, ok = b.store.checkpoints.body(id); !ok || body.KeepsBase() {
				keys[id.stream], o.loaded, o.delta = append(keys[id.stream], id.key), true, body.Delta
				continue
			}
			b.put(id, body)
		}
		if body.IsZero() {
			continue
		}
		base, before, err := b.unpacked.unpack(body, b.keepBases)
		if err != nil {
			return err
		}
		c.Before = before
		o.setBase(batch, base, b.keepBases)
	}
	for stream, keys := range keys {
		if err := b.load(ctx, batch, stream, keys, objects); err != nil {
			return fmt.Errorf("read %d before-images of %s: %w", len(keys), stream, err)
		}
	}
	return nil
}

// ofLog sets the before-images that the log has.
func (b *beforeImages) ofLog(ctx context.Context, batch *change.Batch, objects *touched) error {
	b.first = b.first[:0]
	for i := range objects.objects {
		if c := &batch.Changes[objects.objects[i].first]; c.Op == change.Update || c.Op == change.Delete {
			b.first = append(b.first, c)
		}
	}
	err := b.store.log.Before(ctx, b.first, b.unpacked.memory)
	for _, c := range b.first {
		if redact := b.redactorFor(c.Stream.ID()); redact != nil && c.Before != nil {
			c.Before = redact(c.Key(), c.Before)
		}
	}
	return dependency.Tag(dependency.Sink, err)
}

// load reads the bodies of objects from the checkpoint, and sets Before of their changes.
func (b *beforeImages) load(ctx context.Context, batch *change.Batch, stream change.StreamID, keys []string, objects *touched) error {
	redact := b.redactorFor(stream)
	return b.store.Bodies(ctx, stream, keys, func(key string, stored checkpoint.Body) error {
		id := objectID{stream, key}
		o := &objects.objects[objects.index[id]]
		first := &batch.Changes[o.first]
		if o.delta != nil {
			stored.Delta = o.delta
		}
		base, body, err := b.unpacked.unpack(stored, b.keepBases)
		if err != nil {
			return fmt.Errorf("body: %q: %w", key, err)
		}
		if redact != nil {
			redacted := redact(key, body)
			first.Before = redacted
			if !bytes.Equal(redacted, body) {
				o.loaded = false
				return nil // and the object gets a new base
			}
		}
		first.Before = body
		o.setBase(batch, base, b.keepBases)
		if b.often(id) {
			b.put(id, checkpoint.Body{Base: bytes.Clone(stored.Base), Delta: bytes.Clone(stored.Delta)})
		}
		return nil
	})
}

// written caches the bodies of a durable batch, and releases its before-images.
func (b *beforeImages) written(objects []objectState) {
	b.unpacked.release()
	if b.store.log != nil {
		return
	}
	for i := range objects {
		id, body := objectID{objects[i].stream, objects[i].Key}, objects[i].Body
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
func (b *beforeImages) often(id objectID) bool {
	hash := maphash.Comparable(objectSeed, id)
	last := &b.changed[hash%uint64(len(b.changed))]
	same := *last == hash
	*last = hash
	return same
}

var objectSeed = maphash.MakeSeed()

func (b *beforeImages) put(id objectID, body checkpoint.Body) {
	if old, ok := b.cache.Peek(id); ok {
		b.bytes -= cacheSize(id, old)
	}
	b.cache.Add(id, body)
	b.bytes += cacheSize(id, body)
	for b.bytes > b.maxBytes && b.cache.Len() > 0 {
		b.cache.RemoveOldest()
	}
}

func cacheSize(id objectID, body checkpoint.Body) int64 {
	return int64(len(id.stream) + len(id.key) + body.Len())
}

package export

import (
	"context"
	"fmt"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// beforeImages sets the before-images of changes. The bodies that were written last are cached as the checkpoint has them,
// packed, up to maxBytes, in the same memory as what is pending for the checkpoint; others are read from the checkpoint, in one
// query per stream and batch.
//
// A body from the checkpoint passes the stream's redactor again. That changes nothing, unless the database has forgotten that
// the body was redacted there.
type beforeImages struct {
	store       *readTracker
	redactorFor func(stream change.StreamID) bodyRedactor
	cache       *simplelru.LRU[objectID, checkpoint.Body]
	bytes       int64
	maxBytes    int64
	unpacked    unpacked
}

func newBeforeImages(store *readTracker, redactorFor func(stream change.StreamID) bodyRedactor, maxBytes int64) *beforeImages {
	b := &beforeImages{store: store, redactorFor: redactorFor, maxBytes: maxBytes}
	b.cache, _ = simplelru.NewLRU(1<<20, func(id objectID, body checkpoint.Body) { b.bytes -= cacheSize(id, body) })
	return b
}

// attach sets Before of the first update or delete of each object in the batch, valid until written is called. The before-images
// of others come from the batch itself (touched.leaveOut).
func (b *beforeImages) attach(ctx context.Context, batch *change.Batch, objects *touched) error {
	missing := map[change.StreamID][]string{}
	first := map[objectID]*change.Change{} // the changes that lack before-images
	for i := range batch.Changes {
		c, id := &batch.Changes[i], objects.ids[i]
		if c.Op != change.Update && c.Op != change.Delete || objects.before[i] >= 0 {
			continue
		}
		body, ok := b.cache.Get(id)
		if !ok {
			body, ok = b.store.checkpoints.body(id)
		}
		if !ok {
			missing[id.stream], first[id] = append(missing[id.stream], id.key), c
			continue
		}
		if body == nil {
			continue
		}
		var err error
		if c.Before, err = b.unpacked.unpack(body); err != nil {
			return err
		}
	}
	for stream, keys := range missing {
		if err := b.load(ctx, stream, keys, first); err != nil {
			return fmt.Errorf("read %d before-images of %s: %w", len(keys), stream, err)
		}
	}
	return nil
}

// load reads the bodies of objects from the checkpoint, and sets Before of their changes.
func (b *beforeImages) load(ctx context.Context, stream change.StreamID, keys []string,
	changes map[objectID]*change.Change) error {
	redact := b.redactorFor(stream)
	return b.store.Bodies(ctx, stream, keys, func(key string, packed checkpoint.Body) error {
		body, err := b.unpacked.unpack(packed)
		if err != nil {
			return err
		}
		if redact != nil {
			body = redact(key, body)
		}
		changes[objectID{stream, key}].Before = body
		return nil
	})
}

// written caches the bodies of a durable batch, and releases its before-images.
func (b *beforeImages) written(streams []checkpoint.StreamCommit) {
	b.unpacked.release()
	for _, s := range streams {
		for _, key := range s.Deletes {
			b.cache.Remove(objectID{s.Stream, key})
		}
		for i := range s.Upserts {
			o := &s.Upserts[i]
			id := objectID{s.Stream, o.Key}
			if old, ok := b.cache.Peek(id); ok {
				b.bytes -= cacheSize(id, old)
			}
			b.cache.Add(id, o.Body)
			b.bytes += cacheSize(id, o.Body)
		}
	}
	for b.bytes > b.maxBytes && b.cache.Len() > 0 {
		b.cache.RemoveOldest()
	}
}

func cacheSize(id objectID, body checkpoint.Body) int64 {
	return int64(len(id.stream) + len(id.key) + len(body))
}

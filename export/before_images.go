package export

import (
	"bytes"
	"context"
	"fmt"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"kubecdc/change"
)

// beforeImages sets the before-images of changes. The most recently committed bodies are cached, up to maxBytes; others are
// read from the checkpoint, in one query per stream and batch.
//
// A body from the checkpoint passes the stream's redactor again. That changes nothing, unless the database has forgotten that
// the body was redacted there.
type beforeImages struct {
	store       *readTracker
	redactorFor func(stream change.StreamID) bodyRedactor
	cache       *simplelru.LRU[objectID, []byte]
	bytes       int64
	maxBytes    int64
}

func newBeforeImages(store *readTracker, redactorFor func(stream change.StreamID) bodyRedactor, maxBytes int64) *beforeImages {
	b := &beforeImages{store: store, redactorFor: redactorFor, maxBytes: maxBytes}
	b.cache, _ = simplelru.NewLRU(1<<20, func(id objectID, body []byte) { b.bytes -= cacheSize(id, body) })
	return b
}

// attach sets Before of every update and delete in the batch. If a batch changes an object twice, the second before-image is
// the after-image of the first change.
func (b *beforeImages) attach(ctx context.Context, batch *change.Batch) error {
	bodies, err := b.load(ctx, batch)
	if err != nil {
		return err
	}
	for i := range batch.Changes {
		c := &batch.Changes[i]
		id := objectOf(c)
		if c.Op == change.Update || c.Op == change.Delete {
			c.Before = bodies[id]
		}
		if c.Op == change.Delete {
			delete(bodies, id)
		} else {
			bodies[id] = c.After
		}
	}
	return nil
}

// load returns the bodies before the batch.
func (b *beforeImages) load(ctx context.Context, batch *change.Batch) (map[objectID][]byte, error) {
	bodies := map[objectID][]byte{}
	missing := map[change.StreamID][]string{} // stream → keys
	seen := map[objectID]bool{}
	for i := range batch.Changes {
		c := &batch.Changes[i]
		id := objectOf(c)
		if seen[id] {
			continue
		}
		seen[id] = true
		if c.Op == change.Create || c.Op == change.Read {
			continue
		}
		if body, ok := b.cache.Get(id); ok {
			bodies[id] = body
		} else {
			missing[id.stream] = append(missing[id.stream], id.key)
		}
	}
	for stream, keys := range missing {
		found, err := b.store.Bodies(ctx, stream, keys)
		if err != nil {
			return nil, fmt.Errorf("read %d before-images of %s: %w", len(keys), stream, err)
		}
		redact := b.redactorFor(stream)
		for key, body := range found {
			if redact != nil {
				body = redact(key, body)
			}
			bodies[objectID{stream, key}] = body
		}
	}
	return bodies, nil
}

// committed caches the bodies of a durable batch. It copies them, because a body shares memory with what was read with it.
func (b *beforeImages) committed(batch *change.Batch) {
	for i := range batch.Changes {
		c := &batch.Changes[i]
		id := objectOf(c)
		b.cache.Remove(id)
		if c.Op == change.Delete {
			continue
		}
		b.bytes += cacheSize(id, c.After)
		b.cache.Add(id, bytes.Clone(c.After))
	}
	for b.bytes > b.maxBytes && b.cache.Len() > 0 {
		b.cache.RemoveOldest()
	}
}

func cacheSize(id objectID, body []byte) int64 {
	return int64(len(id.stream) + len(id.key) + len(body))
}

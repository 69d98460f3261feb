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
	redactorFor func(stream string) bodyRedactor
	cache       *simplelru.LRU[string, []byte]
	bytes       int64
	maxBytes    int64
}

func newBeforeImages(store *readTracker, redactorFor func(stream string) bodyRedactor, maxBytes int64) *beforeImages {
	b := &beforeImages{store: store, redactorFor: redactorFor, maxBytes: maxBytes}
	b.cache, _ = simplelru.NewLRU(1<<20, func(key string, body []byte) { b.bytes -= int64(len(key) + len(body)) })
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
		key := cacheKey(c)
		if c.Op == change.Update || c.Op == change.Delete {
			c.Before = bodies[key]
		}
		if c.Op == change.Delete {
			delete(bodies, key)
		} else {
			bodies[key] = c.After
		}
	}
	return nil
}

func cacheKey(c *change.Change) string { return c.Stream.ID() + "\x00" + c.Key() }

// load returns the bodies before the batch, by cacheKey.
func (b *beforeImages) load(ctx context.Context, batch *change.Batch) (map[string][]byte, error) {
	bodies := map[string][]byte{}
	missing := map[string][]string{} // stream → keys
	seen := map[string]bool{}
	for i := range batch.Changes {
		c := &batch.Changes[i]
		key := cacheKey(c)
		if seen[key] {
			continue
		}
		seen[key] = true
		if c.Op == change.Create || c.Op == change.Read {
			continue
		}
		if body, ok := b.cache.Get(key); ok {
			bodies[key] = body
		} else {
			missing[c.Stream.ID()] = append(missing[c.Stream.ID()], c.Key())
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
			bodies[stream+"\x00"+key] = body
		}
	}
	return bodies, nil
}

// committed caches the bodies of a durable batch. It copies them, because a body shares memory with what was read with it.
func (b *beforeImages) committed(batch *change.Batch) {
	for i := range batch.Changes {
		c := &batch.Changes[i]
		key := cacheKey(c)
		b.cache.Remove(key)
		if c.Op == change.Delete {
			continue
		}
		b.bytes += int64(len(key) + len(c.After))
		b.cache.Add(key, bytes.Clone(c.After))
	}
	for b.bytes > b.maxBytes && b.cache.Len() > 0 {
		b.cache.RemoveOldest()
	}
}

package export

import (
	"bytes"
	"context"
	"fmt"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"kubecdc/change"
)

// befores attaches before-images. It keeps the bodies that were committed last, up to a number of bytes; the others
// are read from the checkpoint, in one query a stream and batch.
//
// What is read from there passes the stream's redactor once more. It finds nothing to hide, unless the database forgot
// that it was told to rewrite the bodies.
type befores struct {
	store  *reads
	hide   func(stream change.StreamID) rewrite
	hides  map[change.StreamID]rewrite // of the streams asked for
	recent *simplelru.LRU[string, []byte]
	bytes  int64
	max    int64
}

func newBefores(store *reads, hide func(stream change.StreamID) rewrite, maxBytes int64) *befores {
	b := &befores{store: store, hide: hide, hides: map[change.StreamID]rewrite{}, max: maxBytes}
	b.recent, _ = simplelru.NewLRU(1<<20, func(key string, body []byte) { b.bytes -= int64(len(key) + len(body)) })
	return b
}

// attach sets Before of every update and delete of the batch, in order: within a batch the before of a change is
// the after of the one before it.
func (b *befores) attach(ctx context.Context, batch *change.Batch) error {
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

func cacheKey(c *change.Change) string { return string(c.Stream.ID()) + "\x00" + c.Key() }

// load finds the bodies that the batch starts from.
func (b *befores) load(ctx context.Context, batch *change.Batch) (map[string][]byte, error) {
	bodies := map[string][]byte{}
	missing := map[change.StreamID][]string{} // stream → keys
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
		if body, ok := b.recent.Get(key); ok {
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
		hide, known := b.hides[stream]
		if !known {
			hide = b.hide(stream)
			b.hides[stream] = hide
		}
		for key, body := range found {
			if hide != nil {
				body = hide(key, body)
			}
			bodies[string(stream)+"\x00"+key] = body
		}
	}
	return bodies, nil
}

// committed remembers the bodies of a batch that is durable. It copies them: a body keeps what was read with it.
func (b *befores) committed(batch *change.Batch) {
	for i := range batch.Changes {
		c := &batch.Changes[i]
		key := cacheKey(c)
		b.recent.Remove(key)
		if c.Op == change.Delete {
			continue
		}
		b.bytes += int64(len(key) + len(c.After))
		b.recent.Add(key, bytes.Clone(c.After))
	}
	for b.bytes > b.max && b.recent.Len() > 0 {
		b.recent.RemoveOldest()
	}
}

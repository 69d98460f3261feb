package export

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/dependency"
	"kubecdc/redact"
)

// storedRules tracks the redaction rules under which the checkpoint stores each stream's objects.
type storedRules struct {
	slot     *slot
	epoch    int64
	mu       sync.Mutex
	byStream map[change.StreamID]string
}

// redactCheckpoint applies the current rules to all objects that the checkpoint has of this slot, of streams that are no
// longer exported too. It runs after the log's tail was rolled forward, and before anything is written to the log.
func (s *slot) redactCheckpoint(ctx context.Context, epoch int64) (*storedRules, error) {
	byStream, err := s.parts.Store.Redacted(ctx)
	if err != nil {
		return nil, dependency.Tag(dependency.Checkpoint, err)
	}
	r := &storedRules{slot: s, epoch: epoch, byStream: byStream}
	var mine []change.StreamID
	for stream := range byStream {
		if s.owns(stream) {
			mine = append(mine, stream)
		}
	}
	return r, r.apply(ctx, mine...)
}

// bodiless is added to the rules of streams whose bodies are not kept, since KUBECDC_BEFORE is none.
const bodiless = " without bodies"

// apply redacts the stored objects of the streams whose rules have changed.
func (r *storedRules) apply(ctx context.Context, streams ...change.StreamID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var changed []checkpoint.Redaction
	for _, stream := range streams {
		redactor := r.slot.redactorOf(stream)
		was, known := r.byStream[stream]
		now := checkpoint.Redaction{Stream: stream, Rules: redactor.String(), Rewrite: r.slot.bodyRedactorOf(stream)}
		if !r.slot.config.Before {
			now.Rules += bodiless
			now.Rewrite = func(string, []byte) []byte { return nil }
		}
		if now.Rules == was {
			continue
		}
		changed = append(changed, now)
		if was = strings.TrimSuffix(was, bodiless); known && was != redactor.String() {
			r.logChange(stream, was, redactor)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if err := r.slot.parts.Store.Redact(ctx, r.slot.number, r.epoch, changed); err != nil {
		return dependency.Tag(dependency.Checkpoint, fmt.Errorf("redact the objects in the checkpoint: %w", err))
	}
	for _, c := range changed {
		r.byStream[c.Stream] = c.Rules
	}
	return nil
}

func (r *storedRules) logChange(stream change.StreamID, was string, now *redact.Redactor) {
	if was == "" {
		was = "all"
	}
	if now == nil {
		r.slot.logger.Warn("objects are exported in full from now on", "stream", stream, "before", was)
		return
	}
	r.slot.logger.Warn("redaction has changed: redacting the objects in the checkpoint; the log keeps what was exported before, "+
		"docs/security.md says how to remove it", "stream", stream, "before", was, "now", now.String())
}

// redactorOf returns a stream's redactor; nil if its objects are exported in full.
func (s *slot) redactorOf(stream change.StreamID) *redact.Redactor {
	return s.config.Redactor(change.ResourceOf(stream))
}

// bodyRedactor redacts the body of an object that was exported before, maybe under other rules. It returns nil if it can't.
type bodyRedactor = func(key string, body []byte) []byte

// bodyRedactorOf returns nil if the stream's objects are exported in full.
func (s *slot) bodyRedactorOf(stream change.StreamID) bodyRedactor {
	r := s.redactorOf(stream)
	if r == nil {
		return nil
	}
	return func(key string, body []byte) []byte {
		redacted, err := r.Again(key, body)
		if err != nil {
			return nil
		}
		return redacted
	}
}

// bodyRedactors returns bodyRedactorOf with a cache, for use by one goroutine.
func (s *slot) bodyRedactors() func(stream change.StreamID) bodyRedactor {
	cache := map[change.StreamID]bodyRedactor{}
	return func(stream change.StreamID) bodyRedactor {
		r, ok := cache[stream]
		if !ok {
			r = s.bodyRedactorOf(stream)
			cache[stream] = r
		}
		return r
	}
}

// redactBatch redacts a batch that was read back from the log, where another owner may have written more than is exported now.
func redactBatch(b *change.Batch, redactorFor func(stream change.StreamID) bodyRedactor) {
	for i := range b.Changes {
		c := &b.Changes[i]
		if c.After == nil {
			continue
		}
		if redact := redactorFor(c.Stream.ID()); redact != nil {
			c.After = redact(c.Key(), c.After)
		}
	}
}

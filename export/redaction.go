package export

import (
	"context"
	"fmt"
	"sync"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/dependency"
	"kubecdc/export/ownership"
	"kubecdc/redact"
)

// redactions knows the rules that the checkpoint's bodies are under, by stream.
type redactions struct {
	slot  *slot
	epoch int64
	mu    sync.Mutex
	kept  map[change.StreamID]string
}

// settleRedactions makes what the checkpoint keeps of this slot's objects, exported any more or not, what may be kept now.
// It comes after the log's tail was rolled forward, and before anything is told.
func (s *slot) settleRedactions(ctx context.Context, epoch int64) (*redactions, error) {
	kept, err := s.parts.Store.Redacted(ctx)
	if err != nil {
		return nil, dependency.Tag(dependency.Checkpoint, err)
	}
	c := &redactions{slot: s, epoch: epoch, kept: kept}
	var mine []change.StreamID
	for stream := range kept {
		if ownership.SlotOf(stream, s.config.Slots) == s.number {
			mine = append(mine, stream)
		}
	}
	return c, c.settle(ctx, mine...)
}

// redactorOf gives a stream's redactor.
func (s *slot) redactorOf(stream change.StreamID) *redact.Redactor {
	return s.config.redactor(change.ResourceOf(stream))
}

// rewrite gives a body as it may be told and kept now, or nil where that can't be done.
type rewrite = func(key string, body []byte) []byte

// rewriteOf is nil where all of a stream's bodies may be told.
func (s *slot) rewriteOf(stream change.StreamID) rewrite {
	r := s.redactorOf(stream)
	if r == nil {
		return nil
	}
	return func(key string, body []byte) []byte {
		told, err := r.Again(key, body)
		if err != nil {
			return nil
		}
		return told
	}
}

// rewrites is rewriteOf, worked out once for each stream. It is for one goroutine.
func (s *slot) rewrites() func(stream change.StreamID) rewrite {
	known := map[change.StreamID]rewrite{}
	return func(stream change.StreamID) rewrite {
		r, ok := known[stream]
		if !ok {
			r = s.rewriteOf(stream)
			known[stream] = r
		}
		return r
	}
}

// redactBatch makes a batch that was read back from the log, where another owner may have told more, what may be kept now.
func redactBatch(b *change.Batch, rewriteOf func(stream change.StreamID) rewrite) {
	for i := range b.Changes {
		c := &b.Changes[i]
		if c.After == nil {
			continue
		}
		if hide := rewriteOf(c.Stream.ID()); hide != nil {
			c.After = hide(c.Key(), c.After)
		}
	}
}

// settle rewrites what the checkpoint keeps of the streams, where it is under other rules.
func (x *redactions) settle(ctx context.Context, streams ...change.StreamID) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	var changed []checkpoint.Redaction
	for _, stream := range streams {
		r := x.slot.redactorOf(stream)
		was, known := x.kept[stream]
		if r.String() == was {
			continue
		}
		changed = append(changed, checkpoint.Redaction{Stream: stream, Rules: r.String(), Rewrite: x.slot.rewriteOf(stream)})
		if known {
			x.report(stream, was, r)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if err := x.slot.parts.Store.Redact(ctx, x.slot.number, x.epoch, changed); err != nil {
		return dependency.Tag(dependency.Checkpoint, fmt.Errorf("make the checkpoint keep only what may be kept: %w", err))
	}
	for _, r := range changed {
		x.kept[r.Stream] = r.Rules
	}
	return nil
}

func (x *redactions) report(stream change.StreamID, was string, now *redact.Redactor) {
	if was == "" {
		was = "all"
	}
	if now == nil {
		x.slot.log.Warn("objects are told in full from now on", "stream", stream, "before", was)
		return
	}
	x.slot.log.Warn("other parts of objects may be told now: what the checkpoint keeps of them is rewritten; what the log has told already stays in it, docs/security.md says how to remove it",
		"stream", stream, "before", was, "now", now.String())
}

package export

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/redact"
	"kubecdc/source"
)

// Content says what of objects is told, and kept.
type Content struct {
	Secrets      redact.Mode      // of Secrets that are named: Hash, Metadata or Plain
	MetadataOnly []source.Pattern // only metadata, as the API server gives it
	Redact       []Redaction
	Key          redact.Key // of hashes; without one the checkpoint keeps one
}

// Redaction hides a field of a resource's objects.
type Redaction struct {
	Resource source.Pattern
	Path     redact.Path
}

// metadataOnly reports whether only metadata is asked for. Of Secrets that are not exported (any more) the checkpoint
// keeps no more either.
func (c *Config) metadataOnly(r change.Resource) bool {
	if source.Covers(c.Content.MetadataOnly, r) {
		return true
	}
	return source.IsSecrets(r) && (c.Content.Secrets == redact.Metadata || !source.Takes(c.Resources, r.ID()))
}

// redactor gives what the objects of a resource pass through; nil where all of them is told.
func (c *Config) redactor(r change.Resource) *redact.Redactor {
	rules := redact.Rules{Cluster: c.Cluster, Resource: r.ID(), Mode: redact.Plain, Key: c.Content.Key}
	switch {
	case c.metadataOnly(r):
		rules.Mode = redact.Metadata
	case source.IsSecrets(r):
		rules.Mode = c.Content.Secrets
	}
	for _, one := range c.Content.Redact {
		if source.Covers([]source.Pattern{one.Resource}, r) {
			rules.Fields = append(rules.Fields, one.Path)
		}
	}
	return redact.New(rules)
}

// Doubts says what of the settings has no effect on what the API server serves: a misspelt name would hide nothing.
func (c *Config) Doubts(served source.Served) (lines []string) {
	var hidden []source.Pattern
	for _, r := range c.Content.Redact {
		hidden = append(hidden, r.Resource)
	}
	for _, s := range []struct {
		setting  string
		patterns []source.Pattern
	}{{"KUBECDC_RESOURCES", source.LeftOut(c.Resources)}, {"KUBECDC_METADATA_ONLY", c.Content.MetadataOnly}, {"KUBECDC_REDACT", hidden}} {
		lines = append(lines, source.Doubt(s.setting, source.Idle(s.patterns, served), served)...)
	}
	return append(lines, c.outOfNamespaces(served)...)
}

// outOfNamespaces says which resources are named, but left out since they are in no namespace.
func (c *Config) outOfNamespaces(served source.Served) (lines []string) {
	selected, _ := source.Select(c.Resources, served)
	for _, r := range selected {
		named := slices.ContainsFunc(c.Resources, func(p source.Pattern) bool { return p.Names(r) })
		if named && len(c.StreamsOf(r)) == 0 {
			lines = append(lines, "KUBECDC_RESOURCES: "+r.ID()+" is left out: it is cluster-scoped, and KUBECDC_NAMESPACES is set")
		}
	}
	return lines
}

// useKey sees to a key: the settings', else the checkpoint's.
func (c *Config) useKey(ctx context.Context, store checkpoint.Pins) (err error) {
	if len(c.Content.Key) == 0 {
		c.Content.Key, err = store.HashKey(ctx, redact.NewKey())
	}
	return err
}

// contents knows the rules that the checkpoint's bodies keep to, by stream.
type contents struct {
	slot  *slot
	epoch int64
	mu    sync.Mutex
	kept  map[string]string
}

// settleContents makes what the checkpoint keeps of this slot's objects, exported any more or not, what may be kept now.
// It comes after the log's tail was rolled forward, and before anything is told.
func (s *slot) settleContents(ctx context.Context, epoch int64) (*contents, error) {
	kept, err := s.parts.Store.Redacted(ctx)
	if err != nil {
		return nil, in(PartCheckpoint, err)
	}
	c := &contents{slot: s, epoch: epoch, kept: kept}
	var mine []string
	for stream := range kept {
		if slotOf(stream, s.config.Slots) == s.number {
			mine = append(mine, stream)
		}
	}
	return c, c.settle(ctx, mine...)
}

// redactorOf gives a stream's redactor.
func (s *slot) redactorOf(stream string) *redact.Redactor {
	return s.config.redactor(change.ResourceOf(stream))
}

// rewrite gives a body as it may be told and kept now, or nil where that can't be done.
type rewrite func(key string, body []byte) []byte

// rewriteOf is nil where all of a stream's bodies may be told.
func (s *slot) rewriteOf(stream string) rewrite {
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
func (s *slot) rewrites() func(stream string) rewrite {
	known := map[string]rewrite{}
	return func(stream string) rewrite {
		r, ok := known[stream]
		if !ok {
			r = s.rewriteOf(stream)
			known[stream] = r
		}
		return r
	}
}

// redactBatch makes a batch that was read back from the log, where another owner may have told more, what may be kept now.
func redactBatch(b *change.Batch, rewriteOf func(stream string) rewrite) {
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
func (c *contents) settle(ctx context.Context, streams ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var changed []checkpoint.Redaction
	for _, stream := range streams {
		r := c.slot.redactorOf(stream)
		was, known := c.kept[stream]
		if r.String() == was {
			continue
		}
		changed = append(changed, checkpoint.Redaction{Stream: stream, Rules: r.String(), Rewrite: c.slot.rewriteOf(stream)})
		if known {
			c.tell(stream, was, r)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if err := c.slot.parts.Store.Redact(ctx, c.slot.number, c.epoch, changed); err != nil {
		return in(PartCheckpoint, fmt.Errorf("make the checkpoint keep only what may be kept: %w", err))
	}
	for _, r := range changed {
		c.kept[r.Stream] = r.Rules
	}
	return nil
}

func (c *contents) tell(stream, was string, now *redact.Redactor) {
	if was == "" {
		was = "all"
	}
	if now == nil {
		c.slot.log.Warn("objects are told in full from now on", "stream", stream, "before", was)
		return
	}
	c.slot.log.Warn("other parts of objects may be told now: what the checkpoint keeps of them is rewritten; what the log has told already stays in it, docs/security.md says how to remove it",
		"stream", stream, "before", was, "now", now.String())
}

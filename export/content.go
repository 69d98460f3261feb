package export

import (
	"context"
	"slices"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/redact"
	"kubecdc/source/discovery"
)

// Content says what of objects is told, and kept.
type Content struct {
	Secrets      redact.Mode         // of Secrets that are named: Hash, Metadata or Plain
	MetadataOnly []discovery.Pattern // only metadata, as the API server gives it
	Redact       []Redaction
	Key          redact.Key // of hashes; without one the checkpoint keeps one
}

// Redaction hides a field of a resource's objects.
type Redaction struct {
	Resource discovery.Pattern
	Path     redact.Path
}

// metadataOnly reports whether only metadata is asked for. Of Secrets that are not exported (any more) the checkpoint
// keeps no more either.
func (c *Config) metadataOnly(r change.Resource) bool {
	if discovery.Covers(c.Content.MetadataOnly, r) {
		return true
	}
	return discovery.IsSecrets(r) && (c.Content.Secrets == redact.Metadata || !discovery.Selects(c.Resources, r.ID()))
}

// redactor gives what the objects of a resource pass through; nil where all of them is told.
func (c *Config) redactor(r change.Resource) *redact.Redactor {
	rules := redact.Rules{Cluster: c.Cluster, Resource: r.ID(), Mode: redact.Plain, Key: c.Content.Key}
	switch {
	case c.metadataOnly(r):
		rules.Mode = redact.Metadata
	case discovery.IsSecrets(r):
		rules.Mode = c.Content.Secrets
	}
	for _, one := range c.Content.Redact {
		if discovery.Covers([]discovery.Pattern{one.Resource}, r) {
			rules.Fields = append(rules.Fields, one.Path)
		}
	}
	return redact.New(rules)
}

// Doubts says what of the settings has no effect on what the API server serves: a misspelt name would hide nothing.
func (c *Config) Doubts(served discovery.Served) (lines []string) {
	var hidden []discovery.Pattern
	for _, r := range c.Content.Redact {
		hidden = append(hidden, r.Resource)
	}
	for _, s := range []struct {
		setting  string
		patterns []discovery.Pattern
	}{{"KUBECDC_RESOURCES", discovery.LeftOut(c.Resources)}, {"KUBECDC_METADATA_ONLY", c.Content.MetadataOnly}, {"KUBECDC_REDACT", hidden}} {
		lines = append(lines, discovery.ExplainUnmatched(s.setting, discovery.Unmatched(s.patterns, served), served)...)
	}
	return append(lines, c.outOfNamespaces(served)...)
}

// outOfNamespaces says which resources are named, but left out since they are in no namespace.
func (c *Config) outOfNamespaces(served discovery.Served) (lines []string) {
	selected, _ := discovery.Select(c.Resources, served)
	for _, r := range selected {
		named := slices.ContainsFunc(c.Resources, func(p discovery.Pattern) bool { return p.Names(r) })
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

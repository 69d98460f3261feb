package plan

import (
	"context"
	"slices"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/inventory"
	"kubecdc/redact"
	"kubecdc/source/discovery"
)

// Content says which parts of objects are exported and stored in the checkpoint.
type Content struct {
	Secrets         redact.Mode         // for the named Secrets: Hash, Metadata or Plain
	MetadataOnly    []discovery.Pattern // resources of which only metadata is exported
	Redact          []Field
	NoManagedFields bool
	Ignore          []Field    // an update that changes nothing else is not written
	NoUpdates       bool       // no update is written
	Key             redact.Key // for hashes: if it is empty, a generated key is stored in the checkpoint
}

// Field is a field of a resource's objects.
type Field struct {
	Resource discovery.Pattern
	Path     redact.Path
}

// MetadataOnly reports whether only the metadata of a resource is exported. The checkpoint, too, stores only the metadata of
// Secrets that are not, or no longer, exported.
func (c *Config) MetadataOnly(r change.Resource) bool {
	if discovery.Covers(c.Content.MetadataOnly, r) {
		return true
	}
	return discovery.IsSecrets(r) && (c.Content.Secrets == redact.Metadata || !discovery.Selects(c.Resources, r.ID()))
}

// Redactor returns the redactor for a resource's objects, or nil if they are exported in full.
func (c *Config) Redactor(r change.Resource) *redact.Redactor {
	rules := redact.Rules{Cluster: c.Cluster, Resource: r.ID(), Mode: redact.Plain, Key: c.Content.Key,
		NoManagedFields: c.Content.NoManagedFields}
	switch {
	case c.MetadataOnly(r):
		rules.Mode = redact.Metadata
	case discovery.IsSecrets(r):
		rules.Mode = c.Content.Secrets
	}
	rules.Fields = pathsOf(c.Content.Redact, r)
	return redact.New(rules)
}

// pathsOf returns the paths of the fields of a resource.
func pathsOf(fields []Field, r change.Resource) (paths []redact.Path) {
	for _, f := range fields {
		if discovery.Covers([]discovery.Pattern{f.Resource}, r) {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// Mask returns the mask for a resource's objects, or nil if all of their fields count.
func (c *Config) Mask(r change.Resource) *redact.Mask {
	if paths := pathsOf(c.Content.Ignore, r); len(paths) > 0 {
		return redact.NewMask(paths)
	}
	return nil
}

// LeavesOut reports whether updates of a resource's objects may be left out.
func (c *Config) LeavesOut(r change.Resource) bool { return c.Content.NoUpdates || c.Mask(r) != nil }

// Ignores returns the resources whose updates may be left out. "*" stands for all.
func (c *Content) Ignores() (ids []string) {
	if c.NoUpdates {
		return []string{"*"}
	}
	for _, f := range c.Ignore {
		ids = append(ids, f.Resource.IDs()...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Warnings lists the settings that match nothing that the API server serves: a misspelt name would redact nothing.
func (c *Config) Warnings(served discovery.Served) (lines []string) {
	resourcesOf := func(fields []Field) (resources []discovery.Pattern) {
		for _, f := range fields {
			resources = append(resources, f.Resource)
		}
		return resources
	}
	for _, s := range []struct {
		setting  string
		patterns []discovery.Pattern
	}{
		{"KUBECDC_RESOURCES", discovery.LeftOut(c.Resources)},
		{"KUBECDC_METADATA_ONLY", c.Content.MetadataOnly},
		{"KUBECDC_REDACT", resourcesOf(c.Content.Redact)},
		{"KUBECDC_IGNORE_FIELDS", resourcesOf(c.Content.Ignore)},
	} {
		lines = append(lines, discovery.ExplainUnmatched(s.setting, discovery.Unmatched(s.patterns, served), served)...)
	}
	return append(lines, c.leftOutByNamespaces(served)...)
}

// leftOutByNamespaces lists the cluster-scoped resources that the settings name but that are left out because KUBECDC_NAMESPACES
// is set.
func (c *Config) leftOutByNamespaces(served discovery.Served) (lines []string) {
	selected, _ := discovery.Select(c.Resources, served)
	for _, r := range selected {
		named := slices.ContainsFunc(c.Resources, func(p discovery.Pattern) bool { return p.Names(r) })
		if named && len(c.StreamsOf(r)) == 0 {
			lines = append(lines, "KUBECDC_RESOURCES: "+r.ID()+
				" is left out: it is cluster-scoped, and KUBECDC_NAMESPACES is set")
		}
	}
	return lines
}

// UseKey sets the key of hashes to the checkpoint's, unless the settings have one.
func (c *Config) UseKey(ctx context.Context, store checkpoint.Pins) (err error) {
	if len(c.Content.Key) == 0 {
		c.Content.Key, err = store.HashKey(ctx, redact.NewKey())
	}
	return err
}

// BodyRedactor returns what redacts the bodies of a stream that were exported before, maybe under other rules. It is nil if the
// stream's objects are exported in full.
func (c *Config) BodyRedactor(stream change.StreamID) inventory.Redactor {
	r := c.Redactor(change.ResourceOf(stream))
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

// Package plan says what an exporter exports, and what it works with. It has the settings, the streams of a resource, and what is
// known of a slot. The other packages of export/ read it. It reads no stream and writes no batch.
package plan

import (
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/export/batching"
	"kubecdc/source/discovery"
	"kubecdc/source/reflector"
)

// Config says what to export, and within which limits.
type Config struct {
	Cluster        string
	Resources      []discovery.Pattern
	Content        Content
	Namespaces     []string // empty: all
	LabelSelector  string
	FieldSelector  string
	SnapshotTopics bool // the sink has topics that snapshots on demand can be written to
	TellsWhenRead  bool // the sink does not write who changed what
	Before         bool // write before-images, and store bodies in the inventory

	Slots          int
	Owner          string // name of this process in the leases
	LeaseDuration  time.Duration
	Limits         batching.Limits
	BufferChanges  int
	BufferBytes    int64
	BodyCacheBytes int64 // for the bodies of objects that change often
	// CheckpointInterval is how often the checkpoint is updated to match the log. If it is 0, that happens with each batch, which
	// is necessary where the log can't be read back.
	CheckpointInterval time.Duration
	CheckpointBytes    int64 // a commit of the checkpoint does not wait for the interval once it is this large
	DiscoveryPoll      time.Duration
	HistoryRetention   time.Duration
	ShutdownTimeout    time.Duration
	Source             reflector.Options
}

// StreamsOf returns the streams of a resource: one, or one per namespace. If only some namespaces are exported, a
// cluster-scoped resource has no stream.
func (c *Config) StreamsOf(r change.Resource) (all []*change.Stream) {
	if len(c.Namespaces) == 0 {
		return []*change.Stream{change.NewStream(r, "", c.LabelSelector, c.FieldSelector)}
	}
	if !r.Namespaced {
		return nil
	}
	for _, ns := range c.Namespaces {
		all = append(all, change.NewStream(r, ns, c.LabelSelector, c.FieldSelector))
	}
	return all
}

// Selectors describes what is selected, by the names of the settings.
func (c *Config) Selectors() string {
	var patterns []string
	for _, p := range c.Resources {
		patterns = append(patterns, p.String())
	}
	text := "KUBECDC_RESOURCES is " + strings.Join(patterns, ",")
	for _, s := range [][2]string{{"KUBECDC_NAMESPACES", strings.Join(c.Namespaces, ",")},
		{"KUBECDC_LABEL_SELECTOR", c.LabelSelector}, {"KUBECDC_FIELD_SELECTOR", c.FieldSelector}} {
		if s[1] != "" {
			text += ", " + s[0] + " is " + s[1]
		}
	}
	return text
}

// CheckpointTimeout limits a call to the checkpoint during which no lease is renewed. Without it, a connection that went
// silent would block the call for as long as TCP retransmits: a quarter of an hour.
func (c *Config) CheckpointTimeout() time.Duration { return max(c.LeaseDuration, 10*time.Second) }

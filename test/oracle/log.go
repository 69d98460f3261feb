package oracle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubecdc/change"
)

// Kind is a resource that a test writes, and where etcd keeps it.
type Kind struct {
	GVR    schema.GroupVersionResource
	Prefix string // in etcd
}

// ID is the resource's name in topics and streams.
func (k Kind) ID() string {
	if k.GVR.Group == "" {
		return k.GVR.Resource
	}
	return k.GVR.Resource + "." + k.GVR.Group
}

// Stream is the id of the stream that watches the kind.
func (k Kind) Stream() change.StreamID { return change.StreamID(k.ID()) }

// Record is one data record as a consumer sees it.
type Record struct {
	Topic      string
	Partition  int32
	Offset     int64
	Key        string // namespace/name
	Op         string // c, u, d, r; "" for a tombstone
	UID        string
	Version    change.ResourceVersion
	Inferred   bool
	Provenance Provenance
	Before     json.RawMessage
	After      json.RawMessage
	Bare       bool   // there is no Before, and no tombstone after a delete
	Gap        string // that it was recovered from
}

// Provenance is what an object tells of its change.
type Provenance struct {
	Managers      string
	FieldsChanged string
	TimeFrom      string `json:"ts_from"`
}

// Resource is the resource of the record's topic.
func (r *Record) Resource(prefix string) string { return strings.TrimPrefix(r.Topic, prefix+".") }

// Log is everything that a consumer which honours read_committed finds in the topics of a prefix.
type Log struct {
	Records  []Record // by topic and partition, in offset order
	Controls []change.Control
	Dead     []*kgo.Record
}

// Add adds a record of a topic of the prefix.
func (l *Log) Add(r *kgo.Record, prefix string) error {
	switch r.Topic {
	case prefix + ".control":
		c := change.Control{}
		if err := json.Unmarshal(r.Value, &c); err != nil {
			return fmt.Errorf("control record at %d: %w", r.Offset, err)
		}
		l.Controls = append(l.Controls, c)
	case prefix + ".dead-letter":
		l.Dead = append(l.Dead, r)
	default:
		record, err := Parse(r)
		if err != nil {
			return fmt.Errorf("record %s/%d@%d: %w", r.Topic, r.Partition, r.Offset, err)
		}
		l.Records = append(l.Records, record)
	}
	return nil
}

// ByKey returns the records of one kind, by object.
func (l *Log) ByKey(prefix string, kind Kind) map[string][]Record {
	byKey := map[string][]Record{}
	for _, r := range l.Records {
		if r.Resource(prefix) == kind.ID() {
			byKey[r.Key] = append(byKey[r.Key], r)
		}
	}
	return byKey
}

// SinceLastSnapshot is a log in which some kinds begin with their last snapshots, as those do whose topics have lost records.
func (l *Log) SinceLastSnapshot(prefix string, kinds []Kind) *Log {
	since := *l
	since.Records, since.Controls = nil, nil
	isOf := func(resource string) bool {
		return slices.ContainsFunc(kinds, func(k Kind) bool { return k.ID() == resource })
	}
	first, end := map[string]int{}, map[change.StreamID]int{}
	for i, r := range l.Records {
		if r.Op == "r" && isOf(r.Resource(prefix)) {
			first[r.Topic+" "+r.Key] = i
		}
	}
	for i, r := range l.Records {
		if i >= first[r.Topic+" "+r.Key] {
			since.Records = append(since.Records, r)
		}
	}
	for i, c := range l.Controls {
		if c.Type == change.ControlSnapshotEnd && isOf(change.ResourceOf(c.Stream).ID()) {
			end[c.Stream] = i
		}
	}
	for i, c := range l.Controls {
		if c.Type != change.ControlSnapshotEnd || i >= end[c.Stream] {
			since.Controls = append(since.Controls, c)
		}
	}
	return &since
}

// SnapshotEnd is the resourceVersion of the resource's first complete list, or -1 when there is none. If namespaces of it are streams of
// their own, it is the last of their first ones.
func (l *Log) SnapshotEnd(resource string) int64 {
	last, seen := int64(-1), map[change.StreamID]bool{}
	for _, c := range l.Controls {
		if c.Type == change.ControlSnapshotEnd && change.ResourceOf(c.Stream).ID() == resource && !seen[c.Stream] {
			n, _ := strconv.ParseInt(string(c.ResourceVersion), 10, 64)
			last, seen[c.Stream] = max(last, n), true
		}
	}
	return last
}

// ControlsOf are the control records of some types about one stream, in their order.
func (l *Log) ControlsOf(stream change.StreamID, types ...change.ControlType) (found []change.Control) {
	for _, c := range l.Controls {
		for _, kind := range types {
			if c.Stream == stream && c.Type == kind {
				found = append(found, c)
			}
		}
	}
	return found
}

// String is ID.
func (k Kind) String() string { return k.ID() }

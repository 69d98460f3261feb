package main

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/test/kafkatopics"
	"kubecdc/test/oracle"
)

// record is one record of a resource's topic.
type record struct {
	*oracle.Record
	arrived time.Time
}

// topicLog is everything that was read from the topics so far. Each partition's records are in its order.
type topicLog struct {
	oracle.Log
	arrived   []time.Time                // when the records arrived
	snapshot  map[string]int             // records of op r, by topic
	data      int                        // records that are changes
	positions map[change.StreamID]uint64 // by stream: complete up to here
	next      map[kafkatopics.Partition]int64
}

func newTopicLog() *topicLog {
	return &topicLog{snapshot: map[string]int{}, positions: map[change.StreamID]uint64{}, next: map[kafkatopics.Partition]int64{}}
}

// take adds one record. The markers that end transactions only move the offset.
func (l *topicLog) take(r *kgo.Record) error {
	l.next[kafkatopics.Partition{Topic: r.Topic, Number: r.Partition}] = r.Offset + 1
	if r.Attrs.IsControl() {
		return nil
	}
	records, controls := len(l.Records), len(l.Controls)
	if err := l.Add(r, topicPrefix); err != nil {
		return err
	}
	for _, added := range l.Records[records:] {
		l.arrived = append(l.arrived, time.Now())
		if added.Op != "" {
			l.data++
		}
		if added.Op == "r" {
			l.snapshot[added.Topic]++
		}
	}
	for _, c := range l.Controls[controls:] {
		for _, p := range c.Positions {
			revision, _ := p.ResourceVersion.Revision() // empty while the first list is running
			l.positions[p.Stream] = revision
		}
	}
	return nil
}

// snapshotEnd is the record that ends the first list of a kind, or nil until it is there.
func (l *topicLog) snapshotEnd(k kind) *change.Control {
	for i := range l.Controls {
		if c := &l.Controls[i]; c.Type == change.ControlSnapshotEnd && c.Stream == k.Stream() {
			return c
		}
	}
	return nil
}

// gap is the newest gap record of a kind, or nil if there is none.
func (l *topicLog) gap(k kind) *change.Gap {
	for i := len(l.Controls) - 1; i >= 0; i-- {
		if c := l.Controls[i]; c.Type == change.ControlGap && c.Stream == k.Stream() {
			return c.Gap
		}
	}
	return nil
}

// find returns the record of one change, or nil until it is there.
func (l *topicLog) find(k kind, name, version string) *record {
	for _, r := range slices.Backward(l.recordsOf(k, name)) {
		if string(r.Version) == version {
			return r
		}
	}
	return nil
}

// recordsOf returns the records of one object, without tombstones.
func (l *topicLog) recordsOf(k kind, name string) (found []*record) {
	for i := range l.Records {
		if r := &l.Records[i]; r.Op != "" && r.Topic == topicOf(k) && r.Key == namespace+"/"+name {
			found = append(found, &record{r, l.arrived[i]})
		}
	}
	return found
}

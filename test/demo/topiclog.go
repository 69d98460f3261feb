package main

import (
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/test/kafkatopics"
)

// topicLog is everything that was read from the topics so far.
type topicLog struct {
	records   []*record // of all partitions, each partition's in its order
	controls  []change.Control
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
	switch {
	case r.Attrs.IsControl():
		return nil
	case r.Topic == change.ControlTopic(topicPrefix):
		return l.takeControl(r)
	case r.Topic == change.DeadLetterTopic(topicPrefix):
		return nil // the stub in its place makes the verdict, as it is not the object
	}
	parsed, err := parseRecord(r)
	if err != nil {
		return err
	}
	l.records = append(l.records, parsed)
	if parsed.op != "" {
		l.data++
	}
	if parsed.op == "r" {
		l.snapshot[parsed.topic]++
	}
	return nil
}

func (l *topicLog) takeControl(r *kgo.Record) error {
	var c change.Control
	if err := json.Unmarshal(r.Value, &c); err != nil {
		return fmt.Errorf("read a control record: %w", err)
	}
	l.controls = append(l.controls, c)
	for _, p := range c.Positions {
		revision, _ := p.ResourceVersion.Revision() // empty while the first list is running
		l.positions[p.Stream] = revision
	}
	return nil
}

// snapshotEnd is the record that ends the first list of a kind; nil until it is there.
func (l *topicLog) snapshotEnd(k kind) *change.Control {
	for i := range l.controls {
		if c := &l.controls[i]; c.Type == change.ControlSnapshotEnd && c.Stream == change.StreamID(k.String()) {
			return c
		}
	}
	return nil
}

// gap is the newest gap record of a kind; nil if there is none.
func (l *topicLog) gap(k kind) *change.Gap {
	for i := len(l.controls) - 1; i >= 0; i-- {
		if c := l.controls[i]; c.Type == change.ControlGap && c.Stream == change.StreamID(k.String()) {
			return c.Gap
		}
	}
	return nil
}

// find returns the record of one change; nil until it is there.
func (l *topicLog) find(k kind, name string, revision uint64) *record {
	for i := len(l.records) - 1; i >= 0; i-- {
		if r := l.records[i]; r.op != "" && r.revision == revision && r.topic == k.topic() && r.key == namespace+"/"+name {
			return r
		}
	}
	return nil
}

// of are the records of one object, tombstones left out.
func (l *topicLog) of(k kind, name string) (found []*record) {
	for _, r := range l.records {
		if r.op != "" && r.topic == k.topic() && r.key == namespace+"/"+name {
			found = append(found, r)
		}
	}
	return found
}

// by returns the records of each kind, with those of other topics left out.
func (l *topicLog) by(k kind) (found []*record) {
	for _, r := range l.records {
		if r.topic == k.topic() {
			found = append(found, r)
		}
	}
	return found
}

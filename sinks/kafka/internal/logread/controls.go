package logread

import (
	"bytes"
	"encoding/json"
	"fmt"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/consumer"
)

// Control is a control record with its place in the control topic.
type Control struct {
	*change.Control
	Partition int32
	Offset    int64
}

// SlotID returns whose record it is.
func (c Control) SlotID() sinks.SlotID { return sinks.SlotID{Cluster: c.Cluster, Slot: c.Slot} }

// Ends returns the offsets after a batch's records.
func (c Control) Ends() change.Offsets {
	next := change.Offsets{}
	for topic, ranges := range c.Ranges {
		next[topic] = map[int]int64{}
		for p, ends := range ranges {
			next[topic][p] = ends[1] + 1
		}
	}
	return next
}

// StartsAsOffsets converts the starts of partitions to the form of offsets.
func StartsAsOffsets(starts map[string]map[int]int64) change.Offsets {
	all := change.Offsets{}
	for topic, partitions := range starts {
		for p, start := range partitions {
			all.Merge(change.Offsets{topic: {change.StartOf(p): start}})
		}
	}
	return all
}

// Controls returns a range of a partition of the control topic. visit gets the cluster's committed records. seen, if not nil,
// gets each record with one of the cluster's keys when it is read, whether or not its transaction commits. It gets no Control if
// the record is no control record. If seen is nil, records of another cluster with the same name are skipped.
func (l *Log) Controls(
	partition int32, first int64, seen func(*consumer.Record, Control) error, visit func(Control) error,
) consumer.Range {
	own := []byte(`{"cluster":`)
	if l.Envelope.Cluster != "" {
		own = fmt.Appendf(own, `%s,"slot":`, JSON(l.Envelope.Cluster))
	}
	return consumer.Range{Topic: l.ControlTopic(), Partition: partition, First: first,
		Wanted: func(f *consumer.Record) bool { return bytes.HasPrefix(f.Key, own) },
		Fetched: func(f *consumer.Record) error {
			c, err := l.parseControl(partition, f)
			f.Data = c
			if err == nil && seen != nil {
				err = seen(f, c)
			}
			return err
		},
		Visit: func(f consumer.Record) error {
			if c := f.Data.(Control); c.Control != nil && l.Owns(c.ClusterUID) {
				return visit(c)
			}
			return nil
		}}
}

// parseControl parses a record with one of the cluster's keys. If it is no control record, it returns no Control, and warns once
// for all such records. Otherwise whoever can write to the topic could stop the export. The error is *change.NewerVersionError.
func (l *Log) parseControl(partition int32, f *consumer.Record) (Control, error) {
	c := Control{new(change.Control), partition, f.Offset}
	err := c.UnmarshalJSON(f.Value) // json.Unmarshal would check the text once more
	switch own := c.Type != "" && string(c.Type) == f.Headers[change.HeaderType] && l.Has(c.Cluster); {
	case own && fault.Is[*change.NewerVersionError](err):
		return c, fmt.Errorf("decode the control record at offset %d: %w", f.Offset, err)
	case own && err == nil:
		return c, nil
	}
	what := "another program has written it"
	if f.Headers[change.HeaderType] != "" {
		what = "it is damaged"
	}
	if _, warned := l.passedBy.LoadOrStore(fmt.Sprintf("%d: %s", partition, what), true); !warned {
		l.Client.Logger.Warn("passing by a record that has the key of a control record and is none, and all that follow: "+what,
			"topic", l.ControlTopic(), "partition", partition, "offset", f.Offset, "headers", f.Headers, "error", err)
	}
	return Control{}, nil
}

// JSON returns a string as JSON.
func JSON(s string) []byte {
	b, _ := json.Marshal(s) // can't fail: a string
	return b
}

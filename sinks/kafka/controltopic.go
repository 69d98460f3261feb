package kafka

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/consumer"
)

// verify reads the control topic before anything is written to it, and tests whether it belongs to this cluster and whether the
// slot had a newer owner. With a checkpoint it reads only what follows the checkpoint, which is needed anyway; without one, all.
func (l *slotLog) verify(ctx context.Context, from sinks.Durable) error {
	l.seen = controlSeen{}
	ends, err := l.sink.client.Ends(ctx, l.control.Topic.Name)
	if err != nil {
		return err
	}
	l.control.Next = ends[int(l.control.Index)]
	if from.New {
		l.history, err = l.readHistory(ctx, ends)
	} else {
		l.after, err = l.beginTail(ctx, from, ends[int(l.control.Index)])
	}
	if err == nil && l.seen.last == nil {
		l.seen.last, err = l.sink.sampleEncoding(ctx)
	}
	if err != nil {
		return err
	}
	return cmp.Or(l.sink.otherEncoding(l.seen.last), l.checkEpoch())
}

// controlSeen is what was learned from the control records read so far, committed or not.
type controlSeen struct {
	damaged string          // which of the slot's own records is
	epoch   int64           // the newest of the slot
	own     bool            // there was a record of this cluster
	last    *change.Control // the cluster's last open or batch record, of any slot
}

// checkEpoch returns the error for a slot that had an owner with this epoch or a newer one.
func (l *slotLog) checkEpoch() error {
	if l.seen.epoch >= l.epoch {
		return &sinks.NewerEpochError{Slot: l.slot, Epoch: l.seen.epoch}
	}
	return nil
}

// controlReader reads a partition of the control topic. visit gets the cluster's own committed records.
func (l *slotLog) controlReader(partition int32, first int64, visit func(consumer.Record) error) *consumer.Reader {
	return consumer.New(l.sink.client, l.controlRange(partition, first, visit))
}

func (l *slotLog) controlRange(partition int32, first int64, visit func(consumer.Record) error) consumer.Range {
	own := fmt.Appendf(nil, `{"cluster":%s,"slot":`, mustJSON(l.envelope.Cluster))
	return consumer.Range{Topic: l.control.Topic.Name, Partition: partition, First: first,
		Wanted:  func(f *consumer.Record) bool { return bytes.HasPrefix(f.Key, own) },
		Fetched: func(f *consumer.Record) error { return l.decodeControl(partition, f) },
		Visit: func(f consumer.Record) error {
			if c := controlOf(f); c == nil || !l.sink.owns(c.ClusterUID) {
				return nil
			}
			return visit(f)
		}}
}

// parseControl returns a record under one of the cluster's keys; nil if it is no control record, which is passed by with one
// warning for all: whoever may write to the topic must not be able to stop the export. The error is *change.NewerVersionError.
func (s *Sink) parseControl(partition int32, f *consumer.Record) (*change.Control, error) {
	c := new(change.Control)
	err := json.Unmarshal(f.Value, c)
	var newer *change.NewerVersionError
	switch own := c.Type != "" && string(c.Type) == f.Headers[change.HeaderType] && c.Cluster == s.cfg.Cluster; {
	case own && errors.As(err, &newer):
		return nil, fmt.Errorf("decode the control record at offset %d: %w", f.Offset, err)
	case own && err == nil:
		return c, nil
	}
	what := "another program has written it"
	if f.Headers[change.HeaderType] != "" {
		what = "it is damaged"
	}
	if _, warned := s.strange.LoadOrStore(fmt.Sprintf("%d: %s", partition, what), true); !warned {
		s.cfg.Logger.Warn("passing by a record that has the key of a control record and is none, and all that follow: "+what,
			"topic", change.ControlTopic(s.cfg.TopicPrefix), "partition", partition, "offset", f.Offset, "headers", f.Headers, "error", err)
	}
	return nil, nil
}

// controlOf is the record as decodeControl has decoded it; nil if it is no control record.
func controlOf(f consumer.Record) *change.Control { return f.Data.(*change.Control) }

// decodeControl decodes a record. One of another cluster is an error. Two clusters that start at the same time may each have
// written an open record before they could read the other's: the log belongs to the one whose record is first. The other's
// open record, which no batch follows, is skipped.
func (l *slotLog) decodeControl(partition int32, f *consumer.Record) error {
	c, err := l.sink.parseControl(partition, f)
	f.Data = c
	if err != nil {
		return err
	}
	if c == nil {
		if f.Headers[change.HeaderType] != "" && f.Headers[change.HeaderSlot] == strconv.Itoa(l.slot) {
			l.seen.damaged = fmt.Sprintf(" (the record at offset %d, of batch %s, is damaged)", f.Offset, f.Headers[change.HeaderBatch])
		}
		return nil
	}
	if !l.sink.owns(c.ClusterUID) {
		if c.Type == change.ControlOpen && l.seen.own {
			return nil
		}
		return &sinks.OtherClusterError{Log: "Kafka's " + l.control.Topic.Name, Cluster: c.Cluster, Stored: c.ClusterUID,
			Found: l.sink.cfg.ClusterUID, Setting: "KUBECDC_KAFKA_TOPIC_PREFIX"}
	}
	l.seen.own = true
	if c.Type == change.ControlOpen || c.Type == change.ControlBatch {
		l.seen.last = c
	}
	if c.Slot == l.slot {
		l.seen.epoch = max(l.seen.epoch, c.Epoch)
	}
	return nil
}

// owns reports whether a record with this cluster uid is the cluster's own.
func (s *Sink) owns(uid string) bool {
	return uid == "" || s.cfg.ClusterUID == "" || uid == s.cfg.ClusterUID || slices.Contains(s.cfg.ClusterIDs, uid)
}

// VerifyCluster reads what Open would read. It creates no topic.
func (s *Sink) VerifyCluster(ctx context.Context, slot int, from sinks.Durable) error {
	_, err := s.client.Leaders(ctx, change.ControlTopic(s.cfg.TopicPrefix))
	if cluster.NoTopic(err) {
		last, err := s.sampleEncoding(ctx)
		return cmp.Or(s.otherEncoding(last), err)
	}
	l, err := s.newLog(ctx, slot, 0)
	if err == nil {
		err = l.verify(ctx, from)
	}
	var newer *sinks.NewerEpochError
	if errors.As(err, &newer) {
		return nil
	}
	return cmp.Or(otherLog(err), err)
}

// otherLog returns the OtherClusterError or the OtherEncodingError of an error, which say everything themselves; nil: it is neither.
func otherLog(err error) error {
	var other *sinks.OtherClusterError
	var encoded *sinks.OtherEncodingError
	switch {
	case errors.As(err, &other):
		return other
	case errors.As(err, &encoded):
		return encoded
	}
	return nil
}

package kafka

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/encoding"
)

// verify reads the control topic before anything is written to it, and tests whether it belongs to this cluster and whether the
// slot had a newer owner. With a checkpoint it reads only what follows the checkpoint, which is needed anyway; without one, all.
func (l *slotLog) verify(ctx context.Context, from sinks.Durable) error {
	l.seen = controlSeen{}
	ends, err := l.sink.client.Ends(ctx, l.control.Topic.Name)
	if err != nil {
		return err
	}
	if from.New {
		l.history, err = l.readHistory(ctx, ends)
	} else {
		l.after, err = l.beginTail(ctx, from, ends[int(l.control.Index)])
	}
	if err == nil && l.seen.last == nil {
		err = l.sampleEncoding(ctx, from.Offsets)
	}
	if err != nil {
		return err
	}
	return cmp.Or(l.checkEncoding(), l.checkEpoch())
}

// controlSeen is what was learned from the control records read so far, committed or not.
type controlSeen struct {
	epoch int64           // the newest of the slot
	own   bool            // there was a record of this cluster
	last  *change.Control // the cluster's last open or batch record, of any slot
}

// sampleEncoding learns the encoding from the last records of the checkpoint: the control topic has expired, and the data topics may
// be kept for longer.
func (l *slotLog) sampleEncoding(ctx context.Context, offsets change.Offsets) error {
	for topic, partitions := range offsets {
		if l.isShared(topic) {
			continue
		}
		ends, err := l.sink.client.Ends(ctx, topic)
		for p, next := range partitions {
			if err != nil || l.seen.last != nil || next < 1 || next > ends[p] {
				continue
			}
			last := consumer.New(l.sink.client, consumer.Range{Topic: topic, Partition: int32(p), First: next - 1, NoValues: true,
				Wanted: func(r *consumer.Record) bool {
					if _, key, err := keyOf(l.sink.encodings, r); err == nil && key.Cluster == l.envelope.Cluster {
						l.seen.last = &change.Control{Encoding: r.Headers[change.HeaderEncoding]}
					}
					return false
				}})
			if _, err = last.Fetch(ctx, ends[p]-1); errors.Is(err, consumer.ErrGone) {
				err = nil
			}
		}
		if err != nil && !ofOneTopic[kafkaCode(err)] { // those refuse the topic's streams when they have something to write
			return err
		}
	}
	return nil
}

// checkEncoding returns the error for a log whose last owner has written records with other keys.
func (l *slotLog) checkEncoding() error {
	if l.seen.last == nil {
		return nil
	}
	stored := cmp.Or(l.seen.last.Encoding, encoding.Debezium)
	was, is := l.sink.encodings[stored], l.sink.encodings[l.sink.cfg.Encoding]
	if was != nil && was.Keys() == is.Keys() {
		return nil
	}
	return &sinks.OtherEncodingError{Log: "Kafka's " + l.control.Topic.Name, Stored: stored, Found: is.Name(),
		Setting: "KUBECDC_KAFKA_TOPIC_PREFIX"}
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
		Wanted: func(f *consumer.Record) bool { return bytes.HasPrefix(f.Key, own) }, Fetched: l.decodeControl,
		Visit: func(f consumer.Record) error {
			if !l.sink.owns(controlOf(f).ClusterUID) {
				return nil
			}
			return visit(f)
		}}
}

// controlOf is the record as decodeControl has decoded it.
func controlOf(f consumer.Record) *change.Control { return f.Data.(*change.Control) }

// decodeControl decodes a record. One of another cluster is an error. Two clusters that start at the same time may each have
// written an open record before they could read the other's: the log belongs to the one whose record is first. The other's
// open record, which no batch follows, is skipped.
func (l *slotLog) decodeControl(f *consumer.Record) error {
	c := new(change.Control)
	if err := json.Unmarshal(f.Value, c); err != nil {
		return fmt.Errorf("decode the control record at offset %d: %w", f.Offset, err)
	}
	f.Data = c
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
		return nil
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

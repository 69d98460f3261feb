package kafka

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/consumer"
)

// meet looks at the control topic before anything is written to it: whether it is of this cluster, and whether the slot
// had a newer owner. With a checkpoint only what follows it is read, which is needed anyway; without one, all of it.
func (l *slotLog) meet(ctx context.Context, from sinks.Durable) error {
	l.met = sighting{}
	ends, err := l.sink.client.Ends(ctx, l.control.Topic.Name)
	if err != nil {
		return err
	}
	if from.New {
		l.history, err = l.readHistory(ctx, ends)
	} else {
		l.after, err = l.beginTail(ctx, from, ends[int(l.control.Index)])
	}
	if err != nil {
		return err
	}
	return l.newer()
}

// sighting is what the control records tell that were seen, whether they are committed or not.
type sighting struct {
	epoch int64 // the newest of the slot
	own   bool  // one of the cluster's own has come
}

// newer gives the error for a slot that had an owner with this epoch, or a newer one.
func (l *slotLog) newer() error {
	if l.met.epoch >= l.epoch {
		return &sinks.NewerEpochError{Slot: l.slot, Epoch: l.met.epoch}
	}
	return nil
}

// controlReader reads a partition of the control topic: visit gets the cluster's own records, once they are committed.
func (l *slotLog) controlReader(partition int32, first int64, visit func(consumer.Record) error) *consumer.Reader {
	return consumer.New(l.sink.client, l.controlRange(partition, first, visit))
}

func (l *slotLog) controlRange(partition int32, first int64, visit func(consumer.Record) error) consumer.Range {
	own := fmt.Appendf(nil, `{"cluster":%s,"slot":`, mustJSON(l.envelope.Cluster))
	return consumer.Range{Topic: l.control.Topic.Name, Partition: partition, First: first,
		Wanted: func(f *consumer.Record) bool { return bytes.HasPrefix(f.Key, own) }, Fetched: l.sight,
		Visit: func(f consumer.Record) error {
			if !l.sink.owns(controlOf(f).ClusterUID) {
				return nil
			}
			return visit(f)
		}}
}

// controlOf is what sight has decoded.
func controlOf(f consumer.Record) *change.Control { return f.Data.(*change.Control) }

// sight decodes a record, and refuses that of another cluster. Of two clusters that come at once each may have written its
// mark before it could see the other's: the log is of the one whose mark is first, and the other's, which no batch follows,
// means nothing.
func (l *slotLog) sight(f *consumer.Record) error {
	c := new(change.Control)
	if err := json.Unmarshal(f.Value, c); err != nil {
		return fmt.Errorf("decode the control record at offset %d: %w", f.Offset, err)
	}
	f.Data = c
	if !l.sink.owns(c.ClusterUID) {
		if c.Type == change.ControlOpen && l.met.own {
			return nil
		}
		return &sinks.OtherClusterError{Log: "Kafka's " + l.control.Topic.Name, Cluster: c.Cluster, Stored: c.ClusterUID,
			Found: l.sink.cfg.ClusterUID, Setting: "KUBECDC_KAFKA_TOPIC_PREFIX"}
	}
	l.met.own = true
	if c.Slot == l.slot {
		l.met.epoch = max(l.met.epoch, c.Epoch)
	}
	return nil
}

// owns tells the cluster's own records by what they call it.
func (s *Sink) owns(uid string) bool {
	return uid == "" || s.cfg.ClusterUID == "" || uid == s.cfg.ClusterUID || slices.Contains(s.cfg.ClusterIDs, uid)
}

// VerifyCluster reads what Open would, and makes no topic.
func (s *Sink) VerifyCluster(ctx context.Context, slot int, from sinks.Durable) error {
	_, err := s.client.Leaders(ctx, change.ControlTopic(s.cfg.TopicPrefix))
	if cluster.NoTopic(err) {
		return nil
	}
	l, err := s.newLog(ctx, slot, 0)
	if err == nil {
		err = l.meet(ctx, from)
	}
	var newer *sinks.NewerEpochError
	if errors.As(err, &newer) {
		return nil
	}
	return plainOther(err)
}

// plainOther leaves out what was being done when another cluster's log was met: it says all itself.
func plainOther(err error) error {
	var other *sinks.OtherClusterError
	if errors.As(err, &other) {
		return other
	}
	return err
}

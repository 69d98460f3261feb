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
)

// meet looks at the control topic before anything is written to it: whether it is of this cluster, and whether the slot
// had a newer owner. With a checkpoint only what follows it is read, which is needed anyway; without one, all of it.
func (l *slotLog) meet(ctx context.Context, from sinks.Durable) error {
	l.met = sighting{}
	ends, err := l.sink.client.ends(ctx, l.control.topic.name)
	if err != nil {
		return err
	}
	if from.New {
		l.history, err = l.readHistory(ctx, ends)
	} else {
		l.after, err = l.beginTail(ctx, from, ends[int(l.control.index)])
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

// controlScanner reads a partition of the control topic: visit gets the cluster's own records, once they are committed.
func (l *slotLog) controlScanner(partition int32, first int64, visit func(fetched) error) *scanner {
	own := fmt.Appendf(nil, `{"cluster":%s,"slot":`, mustJSON(l.envelope.Cluster))
	return &scanner{topic: l.control.topic.name, partition: partition, first: first, last: first - 1,
		wanted: func(f *fetched) bool { return bytes.HasPrefix(f.key, own) }, sight: l.sight,
		visit: func(f fetched) error {
			if !l.sink.owns(f.control.ClusterUID) {
				return nil
			}
			return visit(f)
		}}
}

// sight decodes a record, and refuses that of another cluster. Of two clusters that come at once each may have written its
// mark before it could see the other's: the log is of the one whose mark is first, and the other's, which no batch follows,
// means nothing.
func (l *slotLog) sight(f *fetched) error {
	f.control = new(change.Control)
	if err := json.Unmarshal(f.value, f.control); err != nil {
		return fmt.Errorf("decode the control record at offset %d: %w", f.offset, err)
	}
	c := f.control
	if !l.sink.owns(c.ClusterUID) {
		if c.Type == change.ControlOpen && l.met.own {
			return nil
		}
		return &sinks.OtherClusterError{Log: "Kafka's " + l.control.topic.name, Cluster: c.Cluster, Stored: c.ClusterUID,
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

// Meet reads what Open would, and makes no topic.
func (s *Sink) Meet(ctx context.Context, slot int, from sinks.Durable) error {
	_, err := s.client.leaders(ctx, change.ControlTopic(s.cfg.TopicPrefix))
	if noTopic(err) {
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

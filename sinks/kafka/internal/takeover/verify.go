package takeover

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/logread"
)

// Verify reads the control topic before it is written to. It checks that the topic belongs to this cluster, and that the slot had
// no newer owner. With a checkpoint it reads only what follows the checkpoint, which is needed anyway, otherwise everything.
func (l *Slot) Verify(ctx context.Context, from sinks.Durable) error {
	l.seen = controlSeen{}
	ends, err := l.Client.Ends(ctx, l.ControlTopic())
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
		l.seen.last, err = l.sampleEncoding(ctx)
	}
	if err != nil {
		return err
	}
	return cmp.Or(l.otherEncoding(l.seen.last), l.checkEpoch())
}

// VerifyNew is Verify without a control topic.
func (s *Shared) VerifyNew(ctx context.Context) error {
	last, err := s.sampleEncoding(ctx)
	return cmp.Or(s.otherEncoding(last), err)
}

// controlSeen is what was learned from the control records so far, committed or not.
type controlSeen struct {
	damaged string          // one of the slot's own records that is damaged
	epoch   int64           // the newest of the slot
	own     bool            // there was a record of this cluster
	last    *change.Control // the cluster's last open or batch record, in any slot
}

// checkEpoch returns the error for a slot that had an owner with this epoch or a newer one.
func (l *Slot) checkEpoch() error {
	if l.seen.epoch >= l.epoch {
		return &sinks.NewerEpochError{Slot: l.slot, Epoch: l.seen.epoch}
	}
	return nil
}

// controls returns a range of a partition of the control topic. visit gets the cluster's own committed records.
func (l *Slot) controls(partition int32, first int64, visit func(logread.Control) error) consumer.Range {
	return l.Controls(partition, first, l.see, visit)
}

// see records what a record says, whether or not its transaction commits. A record of another cluster is an error. But two
// clusters that start at the same time may each have written an open record before they could read the other's. Then the log
// belongs to the cluster whose record is first. The other's open record, which no batch follows, is skipped.
func (l *Slot) see(f *consumer.Record, c logread.Control) error {
	if c.Control == nil {
		if f.Headers[change.HeaderType] != "" && f.Headers[change.HeaderSlot] == strconv.Itoa(l.slot) {
			l.seen.damaged = fmt.Sprintf(" (the record at offset %d, of batch %s, is damaged)", f.Offset,
				f.Headers[change.HeaderBatch])
		}
		return nil
	}
	if !l.Owns(c.ClusterUID) {
		if c.Type == change.ControlOpen && l.seen.own {
			return nil
		}
		return &sinks.OtherClusterError{Log: "Kafka's " + l.ControlTopic(), Cluster: c.Cluster, Stored: c.ClusterUID,
			Found: l.Config.ClusterUID, Setting: "KUBECDC_KAFKA_TOPIC_PREFIX"}
	}
	l.seen.own = true
	if c.Type == change.ControlOpen || c.Type == change.ControlBatch {
		l.seen.last = c.Control
	}
	if c.Slot == l.slot {
		l.seen.epoch = max(l.seen.epoch, c.Epoch)
	}
	return nil
}

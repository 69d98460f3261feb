package kafka

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks/kafka/internal/logread"
	"kubecdc/sinks/kafka/internal/producer"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// controls returns the batch's control records. The last is the batch record, with its positions, and the first and last offsets
// of its records.
func (l *slotLog) controls(written []*producer.Partition) []change.Control {
	return append(slices.Concat(l.schemas, l.batch.Controls), l.batchControl(written))
}

func (l *slotLog) batchControl(written []*producer.Partition) change.Control {
	ranges := map[string]map[int][2]int64{}
	for _, p := range written {
		if ranges[p.Topic.Name] == nil {
			ranges[p.Topic.Name] = map[int][2]int64{}
		}
		ranges[p.Topic.Name][int(p.Index)] = [2]int64{p.First, p.Last}
	}
	bytes := 0
	for i := range l.batch.Changes {
		bytes += l.batch.Changes[i].Size()
	}
	return change.BatchControl(l.encodingName(), change.BatchEnd{Changes: len(l.batch.Changes), Bytes: int64(bytes),
		Malformed: len(l.batch.Malformed), Positions: l.batch.Positions, Ranges: ranges, Starts: l.past.Starts(),
		Spread: l.spread})
}

// writeControl writes control records to the slot's partition of the control topic.
func (l *slotLog) writeControl(ctx context.Context, controls []change.Control) error {
	if err := l.queueControl(controls); err != nil {
		return err
	}
	return l.producer.Produce(ctx, l.control)
}

func (l *slotLog) queueControl(controls []change.Control) error {
	now := time.Now().UnixMilli()
	key := fmt.Appendf(nil, `{"cluster":%s,"slot":%d}`, logread.JSON(l.envelope.Cluster), l.slot)
	for i := range controls {
		c := controls[i]
		c.Version = change.LogVersion
		c.Cluster, c.ClusterUID, c.Slot, c.Epoch, c.Batch =
			l.envelope.Cluster, l.sink.cfg.ClusterUID, l.slot, l.epoch, l.batch.Seq
		if c.TimeMs == 0 {
			c.TimeMs = now
		}
		value, err := json.Marshal(&c)
		if err != nil {
			return fmt.Errorf("encode control record %s: %w", c.Type, err)
		}
		headers := l.shared.Shared()
		recordbatch.AddHeader(&headers, change.HeaderType, c.Type)
		l.control.QueueRecord(recordbatch.Record{Time: c.TimeMs, Key: key, Value: [][]byte{value}, Headers: headers})
	}
	return nil
}

package logread

import (
	"kubecdc/change"
	"kubecdc/sinks"
)

// Owners has, by slot and epoch, the last batch of each owner. If an owner wrote none, it has the last batch before that owner.
type Owners map[sinks.SlotID]map[int64]uint64

// Add adds a control record. Each slot's records must come in their order.
func (o Owners) Add(c *change.Control) {
	if c.Type != change.ControlOpen && c.Type != change.ControlBatch {
		return
	}
	slot := sinks.SlotID{Cluster: c.Cluster, Slot: c.Slot}
	if o[slot] == nil {
		o[slot] = map[int64]uint64{}
	}
	if _, known := o[slot][c.Epoch]; !known || c.Type == change.ControlBatch {
		o[slot][c.Epoch] = c.Batch
	}
}

// Finished reports whether the batch of a change has its batch record, if the topic still has records of its owner. It matters
// only for records that were written without a transaction.
func (o Owners) Finished(l *sinks.Logged) bool {
	last, known := o[sinks.SlotID{Cluster: l.Cluster, Slot: l.Slot}][l.Epoch]
	return !known || l.Batch <= last
}

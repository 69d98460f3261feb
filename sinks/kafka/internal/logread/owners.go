package logread

import (
	"kubecdc/change"
	"kubecdc/sinks"
)

// Owners has, by slot and epoch, the last batch of each owner. If an owner wrote none, it has the last batch before that owner.
type Owners map[int]map[int64]uint64

// Add adds a control record. Each slot's records must come in their order.
func (o Owners) Add(c *change.Control) {
	if c.Type != change.ControlOpen && c.Type != change.ControlBatch {
		return
	}
	if o[c.Slot] == nil {
		o[c.Slot] = map[int64]uint64{}
	}
	if _, known := o[c.Slot][c.Epoch]; !known || c.Type == change.ControlBatch {
		o[c.Slot][c.Epoch] = c.Batch
	}
}

// Finished reports whether the batch of a change has its batch record, if the topic still has records of its owner. It matters
// only for records that were written without a transaction.
func (o Owners) Finished(l *sinks.Logged) bool {
	last, known := o[l.Slot][l.Epoch]
	return !known || l.Batch <= last
}

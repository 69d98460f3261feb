package logread

import (
	"kubecdc/change"
	"kubecdc/sinks"
)

// Owners has, by slot, the last batch of each owner by its epoch; for one that wrote none, the last batch before it.
type Owners map[int]map[int64]uint64

// Note takes the control records of each slot in their order.
func (o Owners) Note(c *change.Control) {
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

// Finished reports whether the batch of a change has its batch record, as far as the topic still has records of its owner. It
// matters only for records that were written without a transaction.
func (o Owners) Finished(l *sinks.Logged) bool {
	last, known := o[l.Slot][l.Epoch]
	return !known || l.Batch <= last
}

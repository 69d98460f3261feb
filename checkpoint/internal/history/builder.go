// Package history makes whole checkpoints of the rows of the history, in which stores keep what moved in one second. It knows no
// database.
package history

import (
	"slices"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// Builder builds checkpoints from the rows of one slot, oldest first, beginning with a complete one. A complete row holds the
// offsets of all partitions, any other those that moved in its second.
type Builder struct {
	offsets     change.Offsets // of all partitions, after the row that was added last
	checkpoints []checkpoint.Checkpoint
}

// Add takes the next row. One that is not wanted is there only for the offsets that it moved.
func (b *Builder) Add(row checkpoint.Checkpoint, wanted bool) {
	b.offsets = b.offsets.Merge(row.Offsets)
	if wanted {
		row.Offsets = change.Offsets{}.Merge(b.offsets)
		b.checkpoints = append(b.checkpoints, row)
	}
}

// Offsets are those of all partitions, after the row that was added last.
func (b *Builder) Offsets() change.Offsets { return b.offsets }

// NewestFirst gives the wanted checkpoints.
func (b *Builder) NewestFirst() []checkpoint.Checkpoint {
	slices.Reverse(b.checkpoints)
	return b.checkpoints
}

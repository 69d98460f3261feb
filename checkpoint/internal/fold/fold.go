// Package fold makes whole checkpoints of the rows of the history. A row holds only the offsets that moved in its second;
// one that is called complete holds all of them.
package fold

import (
	"slices"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// Fold takes the rows of one slot, oldest first, beginning with a complete one.
type Fold struct {
	offsets change.Offsets // of all partitions, after the row that was added last
	wanted  []checkpoint.Checkpoint
}

// Add takes the next row. One that is not wanted is there only for the offsets that it moved.
func (f *Fold) Add(row checkpoint.Checkpoint, wanted bool) {
	f.offsets = f.offsets.Merge(row.Offsets)
	if wanted {
		row.Offsets = change.Offsets{}.Merge(f.offsets)
		f.wanted = append(f.wanted, row)
	}
}

// Offsets are those of all partitions, after the row that was added last.
func (f *Fold) Offsets() change.Offsets { return f.offsets }

// NewestFirst gives the wanted rows, each with the offsets of all partitions.
func (f *Fold) NewestFirst() []checkpoint.Checkpoint {
	slices.Reverse(f.wanted)
	return f.wanted
}

package checkpoint

import (
	"fmt"
	"slices"
	"strings"

	"kubecdc/change"
)

// Layout says which streams there are of a resource, and how they are spread. Two are compared by ==.
type Layout struct {
	Slots int
	// Split names the namespaces that are streams of their own: RESOURCE@NAMESPACE, ordered bytewise, with commas between.
	Split string
}

// NewLayout puts the parts of split in order.
func NewLayout(slots int, split []string) Layout {
	return Layout{Slots: slots, Split: strings.Join(slices.Sorted(slices.Values(split)), ",")}
}

// Splits are the parts of Split.
func (l Layout) Splits() []string {
	if l.Split == "" {
		return nil
	}
	return strings.Split(l.Split, ",")
}

func (l Layout) String() string {
	text := fmt.Sprintf("%d slots", l.Slots)
	if l.Split != "" {
		text += ", split by " + l.Split
	}
	return text
}

// Relayout is a change of the layout, and what becomes of the streams' positions and objects by it.
type Relayout struct {
	From, To  Layout
	Slots     map[int]SlotState // every slot of From, as the caller owns it
	Moves     []Move
	Positions []change.Position // that streams get
	Ended     []string          // streams that are part of another one now: they have no position any more
}

// Move hands the objects of one namespace over from a stream's inventory to another's.
type Move struct {
	Namespace, From, To string
	Anew                bool // what To had is forgotten first
}

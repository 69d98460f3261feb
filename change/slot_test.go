package change

import (
	"fmt"
	"testing"
)

// A stream has the same slot from release to release, since its position and objects in the checkpoint belong to that slot.
func TestAStreamHasTheSameSlotInEachRelease(t *testing.T) {
	for stream, want := range map[StreamID]int{"pods": 5, "deployments.apps": 7, "configmaps@shop": 0, "": 5} {
		if got := SlotOf(stream, 8); got != want {
			t.Errorf("%q is in slot %d of 8, and was in %d", stream, got, want)
		}
		if got := SlotOf(stream, 1); got != 0 {
			t.Errorf("%q is in slot %d of 1", stream, got)
		}
	}
}

func TestStreamsSpreadOverSlots(t *testing.T) {
	const slots, streams = 8, 800
	count := make([]int, slots)
	for n := range streams {
		count[SlotOf(StreamID(fmt.Sprintf("configmaps@team-%d", n)), slots)]++
	}
	for slot, n := range count {
		if n < streams/slots/2 || n > streams/slots*2 {
			t.Errorf("slot %d has %d of %d streams", slot, n, streams)
		}
	}
}

package producer

import (
	"math"
	"testing"
)

func TestSequenceWraps(t *testing.T) {
	if got := nextSequence(math.MaxInt32-1, 3); got != 1 {
		t.Errorf("the sequence after 2^31-2, three records later, is %d, want 1", got)
	}
}

package reflector

import (
	"fmt"
	"log/slog"

	"kubecdc/change"
)

// Transitions is the table of transitions, for the tests.
var Transitions = transitions

func init() {
	notInTable = func(_ *slog.Logger, from, to change.StreamState) {
		panic(fmt.Sprintf("the transition from %s to %s is not in the table", from, to))
	}
}

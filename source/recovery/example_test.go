package recovery

import (
	"context"
	"fmt"

	"kubecdc/change"
)

// The example of the package comment: the log is complete up to revision 10, and the list is of revision 20.
func ExampleRecover() {
	history := &server{writes: []write{
		{5, change.Create, "a", false}, {7, change.Create, "b", false},
		{12, change.Create, "c", false}, {13, change.Update, "a", false}, {14, change.Delete, "b", false},
		{15, change.Create, "d", false}, {16, change.Delete, "c", false}, {18, change.Update, "a", false},
	}}
	log, gap := history.gap(10, 20)
	plan, incomplete, err := Recover(context.Background(), history, log, gap)
	for _, c := range plan {
		fmt.Println(c.Version, c.Op, c.Key)
	}
	fmt.Printf("incomplete: %q, error: %v\n", incomplete, err)
	// Output:
	// 12 c c
	// 13 u a
	// 14 d b
	// 15 c d
	// 16 d c
	// 18 u a
	// incomplete: "", error: <nil>
}

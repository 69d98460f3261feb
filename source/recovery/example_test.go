package recovery

import (
	"context"
	"fmt"

	"kubecdc/change"
)

// The example of the package comment: the log is complete up to revision 10, and the list is of revision 20.
func ExampleRecover() {
	history := &server{writes: []write{
		{5, change.Create, "a"}, {7, change.Create, "b"},
		{12, change.Create, "c"}, {13, change.Update, "a"}, {14, change.Delete, "b"},
		{15, change.Create, "d"}, {16, change.Delete, "c"}, {18, change.Update, "a"},
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

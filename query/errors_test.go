package query

import "testing"

// Resources that lack the same are named together, and the others one by one, in their order.
func TestWhatIsMissingIsSaidOnce(t *testing.T) {
	e := &IncompleteError{Missing: []string{"a: late", "b.x: gap: 1 to 2", "c: late", "d: late", "e: late", "f: late", "alone"}}
	want := "the log does not have all of it:\n  a, c, d, and 2 more: late\n  b.x: gap: 1 to 2\n  alone"
	if got := e.Error(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

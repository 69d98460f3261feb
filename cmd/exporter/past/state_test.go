package past

import (
	"bufio"
	"cmp"
	"errors"
	"testing"

	"kubecdc/cmd/exporter/cli"
	"kubecdc/query"
)

var errFull = errors.New("no space left on device")

// fullDisk is an output that refuses all writes.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// Otherwise a script would mistake a part of the state for all of it.
func TestAStateThatCanNotBeWrittenIsAnError(t *testing.T) {
	for _, format := range []string{"table", "json"} {
		s := &stateWriter{pastFlags: &pastFlags{Output: cli.Output{Format: format}}, w: bufio.NewWriter(fullDisk{})}
		if err := cmp.Or(s.write(&query.State{}), s.w.Flush()); !errors.Is(err, errFull) {
			t.Errorf("-o %s: %v", format, err)
		}
	}
}

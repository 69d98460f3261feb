package replay_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/replay"
	"kubecdc/sinks"
)

// Otherwise the file would begin with as many zero bytes as it had had, and the replay would go on behind them.
func TestAFileThatWasDeletedIsNotGoneOnWith(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pods.jsonl")
	open := func() (*replay.File, error) {
		f := replay.NewFile(path)
		t.Cleanup(func() { f.Close() })
		return f, f.Open(t.Context(), "r1", func(*change.Control) error { return nil })
	}
	f, err := open()
	if err == nil {
		pod := sinks.Logged{Key: []byte(`{}`), Value: []byte(`{}`)}
		err = f.Write(t.Context(), []sinks.Logged{pod}, &change.Control{Type: change.ControlReplayProgress})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := open(); err == nil || !strings.Contains(err.Error(), "it was cut or deleted") {
		t.Errorf("error is %v", err)
	}
}

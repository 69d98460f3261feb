package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A command that only reads does not create a checkpoint.
func TestAskingMakesNoCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wrong.db")
	s := start(t, "forget", kubeconfig(t, identified(t), "", ""), "KUBECDC_CHECKPOINT=sqlite:"+path)
	s.wantFailure(t, "there is no checkpoint file "+path)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("it made the file: %v", err)
	}
}

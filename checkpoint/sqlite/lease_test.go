package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/test/checkpointtest"
	"kubecdc/test/require"
)

var must = require.NoError

// Nobody else can take the slots of a file's owner. So it does not lose them while its own commit takes longer than a lease.
func TestALongCommitCostsNoLease(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "checkpoint.db"))
	must(t, err)
	defer s.Close()
	checkpointtest.Bind(t, s, "prod", "uid")
	state, err := s.Acquire(t.Context(), 0, "a", time.Second)
	must(t, err)
	commit, err := s.db.BeginTx(t.Context(), nil)
	must(t, err)
	renewal, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Renew(renewal, 0, state.Epoch, time.Second); err != nil {
		t.Errorf("while a commit runs: %v", err)
	}
	must(t, commit.Rollback())
	if err := s.Renew(t.Context(), 0, state.Epoch-1, time.Second); !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("an earlier epoch: %v, want that it is fenced", err)
	}
}

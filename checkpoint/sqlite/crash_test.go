package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/sqlite"
	"kubecdc/test/checkpointtest"
)

// childFile names the checkpoint that a child of the test commits to until it is killed. With childCollects the child pauses
// between commits.
const (
	childFile     = "KUBECDC_TEST_SQLITE_CHILD"
	childCollects = "KUBECDC_TEST_SQLITE_COLLECTS"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childFile); path != "" {
		fmt.Fprintln(os.Stderr, commitForEver(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// commitForEver continues from the file's state, and prints a line after each commit.
func commitForEver(path string) error {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	if _, err := store.Bind(ctx, "prod", change.ClusterIdentity{UID: "uid"}); err != nil {
		return err
	}
	// The owner's name is new each time, as after a restart elsewhere.
	state, err := store.Acquire(ctx, 0, fmt.Sprint("child ", os.Getpid()), time.Hour)
	for seq := state.Seq + 1; err == nil; seq++ {
		if err = store.Commit(ctx, checkpointtest.StampedCommit(state.Epoch, seq)); err == nil {
			fmt.Println(seq)
		}
		if os.Getenv(childCollects) != "" {
			time.Sleep(time.Millisecond) // at least as long as an exporter needs to collect the next batch
		}
	}
	return err
}

func TestKillInTheMiddleOfCommitsKeepsAllOfThemOrNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	for round := range 12 {
		said := killCommitter(t, path, time.Duration(round)*300*time.Microsecond)
		shared := share(t, path)
		must(t, shared.Find(t.Context(), "prod"))
		if last := batchOf(t, shared); last < said { // before an owner has cleaned up after the killed one
			t.Fatalf("batch %d was committed, and another reader finds %d", said, last)
		}
		if round%2 == 0 { // else the shared memory file is there when the next owner comes
			shared.Close()
		}
		store := open(t, path) // at once, since the killed process's lock is gone
		checkpointtest.Bind(t, store, "prod", "uid")
		state := checkpointtest.WantAtomic(t, store, "parent") // at once, since its lease is gone, too
		if state.Seq < said {
			t.Fatalf("batch %d was committed, but the checkpoint is at %d", said, state.Seq)
		}
		store.Close()
		shared.Close()
	}
}

// Signals are stored and read while an owner commits one batch after another.
func TestSignalsWhileAnOwnerCommits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	t.Setenv(childCollects, "yes")
	child, lines := startCommitter(t, path)
	go func() {
		for lines.Scan() { // else it would wait for a reader
		}
	}()
	shared := share(t, path)
	defer shared.Close()
	must(t, shared.Find(t.Context(), "prod"))
	first, last := batchOf(t, shared), uint64(0)
	signals, began, longest := 0, time.Now(), time.Duration(0)
	for ; signals < 30 || last < first+20; signals++ {
		asked := time.Now()
		_, err := shared.AddSignal(t.Context(), checkpoint.Signal{Kind: change.SignalPause, Stream: "pods"})
		must(t, err)
		longest, last = max(longest, time.Since(asked)), batchOf(t, shared)
	}
	t.Logf("%d signals in %v, the longest in %v, during %d commits", signals, time.Since(began), longest, last-first)
	must(t, child.Process.Kill())
	_ = child.Wait()
	store := open(t, path)
	defer store.Close()
	must(t, store.Find(t.Context(), "prod"))
	if all, err := store.Signals(t.Context(), true); err != nil || len(all) != signals {
		t.Errorf("%d signals, of %d; %v", len(all), signals, err)
	}
}

func batchOf(t *testing.T, store *sqlite.Store) uint64 {
	t.Helper()
	last, err := store.Select(t.Context(), 0, checkpoint.Window{Limit: 1})
	must(t, err)
	return last[0].Seq
}

// startCommitter starts a child, and waits for its first commits.
func startCommitter(t *testing.T, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childFile+"="+path)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	lines := bufio.NewScanner(out)
	for range 3 {
		lines.Scan()
	}
	return child, lines
}

// killCommitter lets a child commit a few times, and kills it some time into the next commit. It returns the last batch that the
// child knew to be committed.
func killCommitter(t *testing.T, path string, into time.Duration) uint64 {
	t.Helper()
	child, lines := startCommitter(t, path)
	time.Sleep(into) // no wait for a condition: it determines where in the commit the kill falls
	_ = child.Process.Kill()
	for last := lines.Text(); ; last = lines.Text() {
		if !lines.Scan() {
			_ = child.Wait()
			seq, err := strconv.ParseUint(last, 10, 64)
			if err != nil {
				t.Fatalf("the child ended by itself: %v", err)
			}
			return seq
		}
	}
}

func TestAnotherProcessGetsInUseError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	defer open(t, path).Close()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childFile+"="+path)
	out, err := child.CombinedOutput()
	if want := "the file " + path + " is in use by another process"; err == nil || len(out) < len(want) || string(out[:len(want)]) != want {
		t.Fatalf("the child said %q, %v", out, err)
	}
}

// Package crashfs shows what a loss of power may leave of an SQLite file. It records what this process writes to the file and to
// SQLite's log of it, and when it syncs either. From that it makes files as a disk could have them afterwards: what was synced, and any
// part of what was written since. SQLite's own crash tests do the same (https://www.sqlite.org/testing.html#crash_testing). It is for
// tests, and does not know the file's contents.
package crashfs

import (
	"bytes"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"testing"
)

// Recording is what was written.
type Recording struct {
	path string
	ops  []op
}

// Record begins to record what is written to the file, which must not be open. It ends with the test.
func Record(t testing.TB, path string) *Recording {
	t.Helper()
	shim.once.Do(install)
	shim.mu.Lock()
	defer shim.mu.Unlock()
	if shim.to != nil {
		t.Fatal("another file is recorded")
	}
	r := &Recording{path: path}
	shim.to = r
	t.Cleanup(r.Stop)
	return r
}

// Stop ends the recording.
func (r *Recording) Stop() {
	shim.mu.Lock()
	defer shim.mu.Unlock()
	if shim.to == r {
		shim.to = nil
	}
}

// Acknowledge records that the caller got the answer that everything up to n is committed.
func (r *Recording) Acknowledge(n uint64) {
	shim.mu.Lock()
	defer shim.mu.Unlock()
	r.ops = append(r.ops, op{kind: acknowledged, offset: int64(n)})
}

// Crash is a state of the files after a loss of power.
type Crash struct {
	Acknowledged uint64 // at that time
	What         string
	files        map[string][]byte
}

// Crashes returns about n states, at times spread over the recording. A seed gives the same ones again.
func (r *Recording) Crashes(n int, seed uint64) iter.Seq[*Crash] {
	return func(yield func(*Crash) bool) {
		random := rand.New(rand.NewPCG(seed, 0))
		d, acked := disk{durable: map[string][]byte{}, pending: map[string][]op{}, entered: map[string]bool{}}, uint64(0)
		for i, o := range r.ops {
			switch o.kind {
			case acknowledged:
				acked = uint64(o.offset)
			case synced:
				d.sync(o.file)
			default:
				d.pending[o.file] = append(d.pending[o.file], o)
			}
			if random.IntN(len(r.ops)) >= n {
				continue
			}
			how := hows[random.IntN(len(hows))]
			crash := &Crash{Acknowledged: acked, What: fmt.Sprintf("seed %d, call %d of %d, %s", seed, i, len(r.ops), how.what),
				files: map[string][]byte{}}
			for file, bytes := range d.durable {
				crash.files[file] = bytes
			}
			for file, ops := range d.pending {
				crash.files[file] = how.left(random, bytes.Clone(d.durable[file]), ops)
			}
			if !yield(crash) {
				return
			}
		}
	}
}

// Restore writes the files to another place.
func (c *Crash) Restore(t testing.TB, path string) {
	t.Helper()
	for file, bytes := range c.files {
		if err := os.WriteFile(path+file, bytes, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

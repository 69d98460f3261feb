package sqlite_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/internal/sqlitefile"
	"kubecdc/test/checkpointtest"
)

// Redacted bodies are not in the file, nor in the write-ahead log, once no process reads it. They are neither in rows nor in the
// space of rows that were overwritten or deleted.
func TestRedactedBodiesAreNotInTheFile(t *testing.T) {
	for name, left := range map[string][]byte{"hidden values": []byte(`{}`), "bodies at all": nil} {
		t.Run(name, func(t *testing.T) { t.Parallel(); rewriteTo(t, left) })
	}
}

// rewriteTo rewrites bodies to left.
func rewriteTo(t *testing.T, left []byte) {
	path := filepath.Join(t.TempDir(), "c.db")
	store := open(t, path)
	defer store.Close()
	checkpointtest.Bind(t, store, "prod", "uid")
	state, err := store.Acquire(t.Context(), 0, "a", time.Minute)
	must(t, err)
	canary := rand.Text()
	for seq := range uint64(20) {
		s := checkpoint.StreamCommit{Stream: "secrets"}
		for i := range 40 {
			key := fmt.Sprint("ns/", i)
			if seq%4 == 3 && i%2 == 0 {
				s.Deletes = append(s.Deletes, key)
				continue
			}
			body := fmt.Appendf(nil, `{"data":{"a":"%s-%s"}}`, canary, bytes.Repeat([]byte(rand.Text()), 1+i*10))
			s.Upserts = append(s.Upserts, checkpoint.Object{Key: key, UID: "u", ResourceVersion: "1", Body: checkpoint.Pack(body)})
		}
		must(t, store.Commit(t.Context(), checkpoint.Commit{Epoch: state.Epoch, Seq: seq + 1, Streams: []checkpoint.StreamCommit{s}}))
	}
	if n := inFiles(t, path, canary); n == 0 {
		t.Fatal("the canary is not in the file to begin with")
	}
	reader, err := sqlitefile.Share(t.Context(), path)
	must(t, err)
	defer reader.Close()
	rows, err := reader.DB().Query(`select key from inventory`)
	must(t, err)
	defer rows.Close()
	if !rows.Next() {
		t.Fatal(rows.Err())
	}
	hide := []checkpoint.Redaction{{Stream: "secrets", Rules: "hash", Rewrite: func(string, []byte) []byte { return left }}}
	err = store.Redact(t.Context(), 0, state.Epoch, hide)
	if err == nil || !strings.Contains(err.Error(), "another process reads the file in one transaction") {
		t.Fatalf("a process may still read redacted values: %v", err)
	}
	must(t, rows.Close())
	must(t, store.Prune(t.Context(), time.Hour))
	if n := inFiles(t, path, canary); n > 0 {
		t.Errorf("the canary is still there, %d times", n)
	}
}

// An object's base goes with its body.
func TestBasesOfObjectsWithoutABodyAreDeleted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	store := open(t, path)
	defer store.Close()
	checkpointtest.Bind(t, store, "prod", "uid")
	state, err := store.Acquire(t.Context(), 0, "a", time.Minute)
	must(t, err)
	reader, err := sqlitefile.Share(t.Context(), path)
	must(t, err)
	defer reader.Close()
	object := func(key string, body checkpoint.Body) checkpoint.Object {
		return checkpoint.Object{Key: key, UID: "u", ResourceVersion: "1", Body: body}
	}
	packed := checkpoint.Pack([]byte(`{"a":1}`))
	for i, step := range []struct {
		commit checkpoint.StreamCommit
		bases  int
	}{
		{checkpoint.StreamCommit{Upserts: []checkpoint.Object{object("a", packed), object("b", packed), object("c", packed), object("d", packed)}}, 4},
		{checkpoint.StreamCommit{Upserts: []checkpoint.Object{object("a", checkpoint.Body{}), object("b", checkpoint.Body{Delta: []byte("x")})}}, 3},
		{checkpoint.StreamCommit{Upserts: []checkpoint.Object{object("new", checkpoint.Body{})}, Deletes: []string{"c"}}, 2},
		{checkpoint.StreamCommit{Upserts: []checkpoint.Object{object("a", packed), object("d", packed)}}, 3},
	} {
		step.commit.Stream = "pods"
		must(t, store.Commit(t.Context(), checkpoint.Commit{Epoch: state.Epoch, Seq: uint64(i + 1), Streams: []checkpoint.StreamCommit{step.commit}}))
		var bases int
		must(t, reader.DB().QueryRow(`select count(*) from bases`).Scan(&bases))
		if bases != step.bases {
			t.Errorf("%d bases after commit %d, want %d", bases, i+1, step.bases)
		}
	}
}

func inFiles(t *testing.T, path, text string) (n int) {
	t.Helper()
	files, err := filepath.Glob(path + "*")
	must(t, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		must(t, err)
		n += bytes.Count(b, []byte(text))
	}
	return n
}

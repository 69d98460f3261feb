package sqlitefile

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubecdc/test/require"
)

// SQLite's log grows while somebody reads in one transaction: that is said, and again when it has doubled. It shrinks afterwards.
func TestALogThatGrowsUnderAReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	f, err := Own(t.Context(), path)
	must(t, err)
	defer f.Close()
	_, err = f.DB().Exec(`create table t (body blob)`)
	must(t, err)
	reader, err := Share(t.Context(), path)
	must(t, err)
	defer reader.Close()
	rows, err := reader.DB().Query(`select 1 from sqlite_schema`)
	must(t, err)
	defer rows.Close()
	if !rows.Next() {
		t.Fatal(rows.Err())
	}
	var said bytes.Buffer
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&said, nil)))
	limit, warned := int64(largeLog), 0
	for mb := 0; mb < 2*largeLog>>20+48; mb += 16 {
		_, err := f.DB().Exec(`insert into t select zeroblob(16 << 20)`)
		must(t, err)
		if next := f.warnOf(limit); next > limit {
			limit, warned = next, warned+1
		}
	}
	if !strings.Contains(said.String(), "has been reading the file in one transaction") || warned != 2 { // the owner warns besides, by the clock
		t.Errorf("it is said %d times:\n%s", warned, said.String())
	}
	must(t, rows.Close())
	for range 2 { // the first moves the log to the database, the second begins it anew
		_, err = f.DB().Exec(`insert into t values (null)`)
		must(t, err)
	}
	info, err := os.Stat(path + "-wal")
	must(t, err)
	if info.Size() > 64<<20 {
		t.Errorf("nobody reads, and it has %d MB", info.Size()>>20)
	}
	if now := f.warnOf(limit); now != largeLog {
		t.Errorf("the next growth is said from %d MB on", now>>20)
	}
}

var must = require.NoError

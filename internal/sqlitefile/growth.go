package sqlitefile

import (
	"context"
	"log/slog"
	"os"
	"time"
)

// A log of this size is not the owner's doing. SQLite copies it to the database every 4 MB, and begins it anew as soon as nobody
// reads from it.
const largeLog = 256 << 20

// watchLog warns when SQLite's log is large, and again when it has doubled.
func (f *File) watchLog(ctx context.Context) {
	limit := int64(largeLog)
	for {
		limit = f.warnOf(limit)
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Second):
		}
	}
}

// warnOf warns if the log has reached the limit, and returns the next one.
func (f *File) warnOf(limit int64) int64 {
	info, err := os.Stat(f.real + "-wal")
	if err != nil || info.Size() < largeLog {
		return largeLog
	}
	if info.Size() < limit {
		return limit
	}
	slog.Warn("the file's write-ahead log grows: another process has been reading the file in one transaction for long; end it",
		"file", f.real+"-wal", "mb", info.Size()>>20)
	return 2 * info.Size()
}

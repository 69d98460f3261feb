package setup

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"kubecdc/config"
	"kubecdc/internal/sqlitefile"
	"kubecdc/internal/wait"
	"kubecdc/mirror"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
)

// OpenMirror opens the mirror of a log, which answers no question without reading all of it, and a reader of the mirror's file.
// It removes mirrors that nobody has filled for the length of the history. The mirror closes the log. The error is
// *fault.InUseError if another process has the file.
func OpenMirror(ctx context.Context, from sinks.Copier, settings *config.Config, cluster string, log *slog.Logger,
	show func(what string, done, total int64)) (*mirror.Mirror, sinks.ReadCloser, error,
) {
	path, err := settings.MirrorFile()
	if err != nil {
		return nil, nil, err
	}
	others, _ := Mirrors(ctx, settings)
	RemoveOldLogs(slices.DeleteFunc(others, func(l EmbeddedLog) bool { return l.Path == path || sqlitefile.IsOwned(l.Path) }),
		settings)
	m, err := mirror.Open(ctx, from, mirror.Options{Path: path, History: time.Duration(settings.Sink.SQLiteHistory),
		MaxBytes: int64(settings.Sink.SQLiteMaxSize), Logger: log, Show: show})
	if err != nil {
		return nil, nil, err
	}
	reader, err := readFile(ctx, path, cluster)
	if err != nil {
		m.Close()
		return nil, nil, err
	}
	return m, reader, nil
}

// mirrorLag is how far a mirror may be behind the log's end if it is read in place of the log.
const mirrorLag = 10 * time.Second

// ReadMirror returns a reader of the mirror of a log, and its path, once it has all that the log has now. It returns nil if there
// is none, or if no process fills it so far.
func ReadMirror(ctx context.Context, from sinks.Copier, settings *config.Config, cluster string) (_ sinks.ReadCloser,
	path string) {
	path, err := settings.MirrorFile()
	if err != nil {
		return nil, ""
	}
	reader, err := readFile(ctx, path, cluster)
	if err != nil {
		return nil, ""
	}
	identity, err := from.Identity(ctx)
	end, failed := from.End(ctx)
	for began := time.Now(); err == nil && failed == nil && time.Since(began) < mirrorLag; {
		var has sqlite.Copied
		if has, err = reader.Copied(ctx); err != nil || has.Identity != identity {
			break
		}
		if has.After.Offsets.Has(end.Offsets) {
			return reader, path
		}
		if !sqlitefile.IsOwned(path) {
			break
		}
		err = wait.For(ctx, mirrorLag/100)
	}
	_ = reader.Close()
	return nil, ""
}

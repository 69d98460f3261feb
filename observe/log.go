// Package observe lets people see what the exporter does: its log, its metrics, its health, and the progress of
// first snapshots and of rebuilds of the checkpoint. It is told what happens and decides nothing; nothing here can stop a stream or a batch.
package observe

import (
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"

	"kubecdc/config"
)

// IsTerminal reports whether a person reads the file as it is written.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// NewLogger makes the process's logger. Level is debug, info, warn or error. Format is text, json, or auto: text
// where w is a terminal and JSON elsewhere; on a terminal text is short and coloured, unless NO_COLOR is set.
// What looks like a password is hidden in every message.
func NewLogger(w io.Writer, level, format string, terminal bool) *slog.Logger {
	var l slog.Level
	if l.UnmarshalText([]byte(level)) != nil {
		l = slog.LevelInfo
	}
	if format == "json" || format != "text" && !terminal {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l, ReplaceAttr: redact}))
	}
	options := &tint.Options{Level: l, ReplaceAttr: redact, TimeFormat: time.RFC3339, NoColor: true}
	if terminal {
		options.TimeFormat, options.NoColor = time.TimeOnly, os.Getenv("NO_COLOR") != ""
	}
	return slog.New(tint.NewTextHandler(w, options))
}

// redact hides passwords in texts and errors, which may come from any library.
func redact(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(config.Redact(v))
	case error:
		a.Value = slog.StringValue(config.Redact(v.Error()))
	}
	return a
}

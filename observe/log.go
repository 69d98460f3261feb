// Package observe has the exporter's log, metrics and readiness, and serves them. Package export/live has the state that they
// show.
package observe

import (
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/lmittmann/tint"

	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
)

// NewLogger returns the process's logger. Level is debug, info, warn or error. Format is text, json, or auto, which is text on a
// terminal and else JSON. On a terminal, text has short times, and colours unless NO_COLOR is set. Passwords in attributes are
// hidden.
func NewLogger(w io.Writer, level, format string, terminal bool) *slog.Logger {
	var l slog.Level
	if l.UnmarshalText([]byte(level)) != nil {
		l = slog.LevelInfo
	}
	if format == "json" || format != "text" && !terminal { // a record is one write
		return slog.New(slog.NewJSONHandler(plain.JSONWriter(w), &slog.HandlerOptions{Level: l, ReplaceAttr: redact}))
	}
	options := &tint.Options{Level: l, ReplaceAttr: redactPlain, TimeFormat: time.RFC3339, NoColor: true}
	if terminal {
		options.TimeFormat, options.NoColor = time.TimeOnly, !screen.AllowsColours()
	}
	return slog.New(tint.NewTextHandler(w, options))
}

// redact hides passwords in strings and in errors, which may come from any library. It writes durations as text, as in settings,
// since JSON would have nanoseconds.
func redact(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case time.Duration:
		a.Value = slog.StringValue(v.String())
	case string:
		a.Value = slog.StringValue(plain.Redact(v))
	case error:
		a.Value = slog.StringValue(plain.Redact(v.Error()))
	}
	return a
}

// redactPlain is redact for text. It also escapes text from others, so that it can't imitate a line or control the terminal. It
// is needed since tint quotes no message, and with colours turns \x1b in a quoted text into ESC.
func redactPlain(groups []string, a slog.Attr) slog.Attr {
	a = redact(groups, a)
	if a.Value.Kind() == slog.KindString || a.Value.Kind() == slog.KindAny && a.Key != slog.LevelKey {
		a.Value = slog.StringValue(strings.ReplaceAll(plain.Escape(a.Value.String()), `\x1b`, `\x1B`))
	}
	return a
}

package config

import (
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"

	"kubecdc/internal/plain"
)

const hidden = "***"

// Secret is a text that must not be shown: formatted, marshalled or logged, it is ***.
type Secret string

// Reveal returns the text, for the one place that needs it.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

func (s Secret) Format(f fmt.State, _ rune)   { _, _ = f.Write([]byte(s.String())) }
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
func (s Secret) LogValue() slog.Value         { return slog.StringValue(s.String()) }

func (s *Secret) UnmarshalText(text []byte) error { *s = Secret(text); return nil }

// DSN is the address of a database. It may contain a password, which is never shown.
type DSN string

// Reveal returns the address with its password, for the one place that connects.
func (d DSN) Reveal() string { return string(d) }

// IsPostgres reports whether the DSN is a Postgres database's.
func (d DSN) IsPostgres() bool { return strings.HasPrefix(string(d), "postgres") }

// String returns the address without user, password and options. A password that should have been escaped can end up in any part
// of a URL. If that may have happened, the address is not shown at all.
func (d DSN) String() string {
	text := string(d)
	scheme, _, _ := strings.Cut(text, ":")
	switch scheme {
	case "":
		return ""
	case "sqlite":
		return text
	case "postgres", "postgresql":
	default:
		return hidden
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || strings.Count(text, "@") > 1 || u.User == nil && strings.Contains(text, "@") {
		return scheme + "://" + hidden
	}
	return (&url.URL{Scheme: scheme, Host: u.Host, Path: u.Path}).String()
}

func (d DSN) Format(f fmt.State, _ rune)   { _, _ = f.Write([]byte(d.String())) }
func (d DSN) MarshalText() ([]byte, error) { return []byte(d.String()), nil }
func (d DSN) LogValue() slog.Value         { return slog.StringValue(d.String()) }

// UnmarshalText takes the text as it is. validate.go checks it.
func (d *DSN) UnmarshalText(text []byte) error { *d = DSN(strings.TrimSpace(string(text))); return nil }

var userAtHost = regexp.MustCompile(`[^\s"',:/]+:[^\s"',]+@`)

// redactValue hides what may be a password in the value of a setting, including user:password@host.
func redactValue(text string) string {
	return userAtHost.ReplaceAllString(plain.Redact(text), hidden+"@")
}

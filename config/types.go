package config

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// List is a comma-separated list. Blanks around its parts, and empty parts, are dropped.
type List []string

func (l *List) UnmarshalText(text []byte) error {
	*l = nil
	for _, part := range strings.Split(string(text), ",") {
		if part = strings.TrimSpace(part); part != "" {
			*l = append(*l, part)
		}
	}
	return nil
}

func (l List) String() string { return strings.Join(l, ",") }

// Bytes is a size: a number, alone or with a unit (8MiB, 1MB, 65536).
type Bytes int64

func (b *Bytes) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(strings.TrimSpace(string(text)))
	if err != nil || n > math.MaxInt64 || strings.HasSuffix(string(text), "b") { // 4Mb are bits
		return errors.New("not a size")
	}
	*b = Bytes(n)
	return nil
}

func (b Bytes) String() string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		size := Bytes(1) << (30 - 10*i)
		if b >= size && b%size == 0 {
			return fmt.Sprintf("%d%s", b/size, unit)
		}
	}
	return fmt.Sprintf("%d", int64(b))
}

// Quota is the most that something may take: a size, or 0, which is written off.
type Quota Bytes

// UnmarshalText reads a size as Bytes does, or off. YAML passes off on as false.
func (q *Quota) UnmarshalText(text []byte) error {
	if s := string(text); s == "off" || s == "false" {
		*q = 0
		return nil
	}
	return (*Bytes)(q).UnmarshalText(text)
}

// String returns off for 0, and otherwise the size.
func (q Quota) String() string {
	if q == 0 {
		return "off"
	}
	return Bytes(q).String()
}

// History is the time for which something is retained: a duration, or forever.
type History time.Duration

// Forever is longer than any duration.
const Forever = History(math.MaxInt64)

func (h *History) UnmarshalText(text []byte) error {
	if string(text) == "forever" {
		*h = Forever
		return nil
	}
	d, err := time.ParseDuration(string(text))
	*h = History(d)
	return err
}

// Switch is on or off. true/false, yes/no and 1/0 mean the same.
type Switch bool

func (s *Switch) UnmarshalText(text []byte) error {
	switch strings.ToLower(strings.TrimSpace(string(text))) {
	case "on", "true", "yes", "1":
		*s = true
	case "off", "false", "no", "0":
		*s = false
	default:
		return errors.New("neither on nor off")
	}
	return nil
}

func (s Switch) String() string {
	if s {
		return "on"
	}
	return "off"
}

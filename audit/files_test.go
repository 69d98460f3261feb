package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubecdc/test/require"
)

var must = require.NoError

// memory is a log that keeps records in memory, and fails now and then.
type memory struct {
	records map[string]int
	writes  int
	fails   bool
}

func (m *memory) WriteAudit(_ context.Context, records []Record) error {
	if m.writes++; m.fails && m.writes%2 == 1 {
		return errors.New("it fails")
	}
	for i := range records {
		m.records[records[i].AuditID]++
	}
	return nil
}

func (m *memory) want(t *testing.T, when string, events int) {
	t.Helper()
	for n := range events {
		if m.records[fmt.Sprint("e", n)] == 0 {
			t.Fatalf("%s: event %d is missing of %d", when, n, events)
		}
	}
	if len(m.records) != events {
		t.Errorf("%s: %d events, want %d", when, len(m.records), events)
	}
}

// A file is read while it grows, is renamed, is emptied and is made again. Lines that are cut, broken or too long cost no other line.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.log")
	events := 0
	lines := func(n int) (text string) {
		for range n {
			text += eventOf(fmt.Sprintf(`"auditID":"e%d"`, events)) + "\n"
			events++
		}
		return text
	}
	write := func(text string, flags int) {
		t.Helper()
		file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|flags, 0o600)
		if err == nil {
			_, err = file.WriteString(text)
		}
		if err = errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	m := &memory{records: map[string]int{}, fails: true}
	i := NewIntake(Parser{}, nil)
	f := NewFiles(i, []string{filepath.Join(dir, "audit.log")}, slog.New(slog.DiscardHandler))
	poll := func(when string) {
		t.Helper()
		for f.poll(t.Context()) != nil {
			continue // the log fails half of the time
		}
		m.want(t, when, events)
	}
	write(lines(1200), os.O_APPEND)
	if err := f.poll(t.Context()); !errors.Is(err, ErrNotOpen) {
		t.Fatalf("before the log is open: %v", err)
	}
	defer i.Open(m, nil)()
	poll("the first lines")
	next := lines(1)
	write(next[:100], os.O_APPEND)
	events--
	poll("half a line")
	events++
	write(next[100:]+"no JSON\n\n"+lines(1), os.O_APPEND)
	poll("the other half, and a broken line")
	write(`{"x":"`+strings.Repeat("x", 17<<20)+"\"}\n"+lines(2), os.O_APPEND)
	poll("a line that is too long")
	write(lines(3), os.O_APPEND)
	must(t, os.Rename(path, path+".1"))
	write(lines(2), os.O_APPEND)
	poll("a rename")
	write(lines(1), os.O_TRUNC)
	poll("a file that was emptied")
	write(lines(4), os.O_TRUNC)
	poll("a file that was emptied, and filled again with more than before")
	must(t, os.Remove(path))
	poll("a removal")
	if len(f.open) != 0 {
		t.Errorf("%d files are still open", len(f.open))
	}
}

// Standard input is taken in as it comes, however the log fails.
func TestStream(t *testing.T) {
	m := &memory{records: map[string]int{}, fails: true}
	i := NewIntake(Parser{}, nil)
	defer i.Open(m, nil)()
	var lines []string
	for n := range 3000 {
		lines = append(lines, eventOf(fmt.Sprintf(`"auditID":"e%d"`, n)))
	}
	r, w := io.Pipe()
	go func() {
		_, err := io.WriteString(w, strings.Join(lines, "\n")) // the last line has no end
		_ = w.CloseWithError(err)
	}()
	must(t, i.Stream(t.Context(), r, slog.New(slog.DiscardHandler)))
	m.want(t, "a stream", 3000)
}

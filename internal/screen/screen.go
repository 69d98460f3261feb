// Package screen writes to a terminal: a line for each change, lines that fit, and a live last line that shows progress. It does
// not know what the program does.
package screen

import (
	"io"
	"os"
	"sync"

	"golang.org/x/term"

	"kubecdc/internal/plain"
)

// Screen is a terminal. Its methods may be called from any goroutine.
type Screen struct {
	Colours *Colours
	out     *os.File
	mu      sync.Mutex
	live    plain.Own
}

// New returns the screen of a terminal. It returns nil if w is no terminal, or can't erase a line.
func New(w io.Writer) *Screen {
	f, ok := w.(*os.File)
	if !ok || !IsTerminal(f) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &Screen{Colours: NewColours(IsColourful(f)), out: f}
}

// usualColumns and usualRows are the size of a terminal that does not report its own.
const usualColumns, usualRows = 80, 24

// Size returns how many columns and rows there are.
func (s *Screen) Size() (columns, rows int) {
	columns, rows, _ = term.GetSize(int(s.out.Fd()))
	if columns <= 0 {
		columns = usualColumns
	}
	if rows <= 0 {
		rows = usualRows
	}
	return columns, rows
}

// Columns returns how many columns there are.
func (s *Screen) Columns() int {
	columns, _ := s.Size()
	return columns
}

const erase = "\r\x1b[K"

// Write writes complete lines above the live one.
func (s *Screen) Write(lines []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == "" {
		return s.out.Write(lines)
	}
	_, err := io.WriteString(s.out, erase+string(lines)+string(s.live))
	return len(lines), err
}

// Live replaces the last line, or removes it if there are no parts.
func (s *Screen) Live(parts ...Part) {
	text := Line(s.Columns()-1, parts...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if text != s.live {
		_, _ = io.WriteString(s.out, erase+string(text))
	}
	s.live = text
}

// Print writes a line of parts above the live one.
func (s *Screen) Print(parts ...Part) { _, _ = s.Write([]byte(Line(s.Columns(), parts...) + "\n")) }

package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// screen is what the reader of the tour sees: coloured on a terminal, plain elsewhere.
type screen struct {
	mu       sync.Mutex
	out      *os.File
	terminal bool
	color    bool
	width    int
	chapters int
	started  time.Time
	waiting  string // the line that shows what is waited for, drawn on a terminal only
	stopTick func()
}

func newScreen(out *os.File) *screen {
	s := &screen{out: out, width: 96, started: time.Now(), stopTick: func() {}}
	s.terminal = term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb"
	s.color = s.terminal && os.Getenv("NO_COLOR") == ""
	if columns, _, err := term.GetSize(int(out.Fd())); s.terminal && err == nil && columns > 20 {
		s.width = min(s.width, columns-2)
	}
	return s
}

// The styles, by their numbers in an SGR sequence (ECMA-48).
const (
	plain  = ""
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// paint returns the text in a style.
func (s *screen) paint(style, text string) string {
	if !s.color || style == plain {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// print writes one line, in place of the waiting line if there is one.
func (s *screen) print(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	fmt.Fprintln(s.out, line)
	s.draw()
}

func (s *screen) erase() {
	if s.terminal && s.waiting != "" {
		fmt.Fprint(s.out, "\r\x1b[K")
	}
}

func (s *screen) draw() {
	if s.terminal && s.waiting != "" {
		fmt.Fprint(s.out, s.paint(dim, s.waiting))
	}
}

// chapter begins a numbered part of the tour.
func (s *screen) chapter(title string) {
	s.chapters++
	s.print("")
	s.print(s.paint(bold, fmt.Sprintf("%d  %s", s.chapters, title)))
}

// say writes sentences, in lines of the screen's width.
func (s *screen) say(format string, args ...any) { s.wrap("", plain, fmt.Sprintf(format, args...)) }

// remark writes a side remark.
func (s *screen) remark(format string, args ...any) { s.wrap("", dim, fmt.Sprintf(format, args...)) }

// warn writes what the reader must not miss.
func (s *screen) warn(format string, args ...any) { s.wrap("", yellow, fmt.Sprintf(format, args...)) }

// done writes what has gone well.
func (s *screen) done(format string, args ...any) {
	s.wrap(s.paint(green, "✓")+" ", plain, fmt.Sprintf(format, args...))
}

// failed writes what has not.
func (s *screen) failed(format string, args ...any) {
	s.wrap(s.paint(red, "✗")+" ", plain, fmt.Sprintf(format, args...))
}

// wrap breaks text between words. A mark, if there is one, is two columns wide and stands before the first line.
func (s *screen) wrap(mark, style, text string) {
	indent, line := "   ", ""
	if mark != "" {
		mark, indent = indent+mark, indent+"  "
	} else {
		mark = indent
	}
	flush := func() {
		s.print(mark + s.paint(style, line))
		mark, line = indent, ""
	}
	for word := range strings.FieldsSeq(text) {
		if line != "" && len([]rune(indent+line+" "+word)) > s.width {
			flush()
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	flush()
}

// wait shows on a terminal what is waited for, and for how long already, until the function that it returns is called.
func (s *screen) wait(what string) (stop func()) {
	if !s.terminal {
		return func() {}
	}
	began, done := time.Now(), make(chan struct{})
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.setWaiting(done, fmt.Sprintf("   … waiting for %s, %.1f s", what, time.Since(began).Seconds()))
			case <-done:
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(done)
		s.setWaiting(nil, "")
	})
}

// setWaiting changes the waiting line, but not after done is closed, since a tick may come late.
func (s *screen) setWaiting(done <-chan struct{}, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-done:
		return
	default:
	}
	s.erase()
	s.waiting = cut(line, s.width) // what goes over the edge could not be erased
	s.draw()
}

// took returns a duration as people say it.
func took(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// cut shortens text to a width.
func cut(text string, width int) string {
	if runes := []rune(text); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text
}

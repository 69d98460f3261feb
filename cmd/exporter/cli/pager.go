package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"kubecdc/internal/screen"
)

// Pager writes to a terminal. If a text is longer than the screen, it goes through the program in PAGER, or less. If PAGER is
// empty or cat, there is no pager. Close waits until the user leaves the program.
type Pager struct {
	out     *screen.Screen
	pending bytes.Buffer // text, until it is longer than the screen
	command *exec.Cmd    // nil: not yet needed
	to      io.WriteCloser
}

// NewPager returns a pager for a terminal, or nil if there is no terminal.
func NewPager(out *screen.Screen) *Pager {
	if out == nil {
		return nil
	}
	return &Pager{out: out}
}

// Write buffers text until it is longer than the screen. If the user has left the program, the text is dropped.
func (p *Pager) Write(text []byte) (int, error) {
	if p.to == nil {
		p.pending.Write(text)
		if _, rows := p.out.Size(); bytes.Count(p.pending.Bytes(), []byte("\n")) >= rows-1 {
			p.start()
			_, err := p.to.Write(p.pending.Bytes())
			return len(text), unlessLeft(err)
		}
		return len(text), nil
	}
	_, err := p.to.Write(text)
	return len(text), unlessLeft(err)
}

func unlessLeft(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// start starts the program. If that fails, the text goes to the terminal.
func (p *Pager) start() {
	p.to = nopCloser{p.out}
	program, set := os.LookupEnv("PAGER")
	if !set {
		program = "less"
	}
	words := strings.Fields(program)
	if len(words) == 0 || words[0] == "cat" {
		return
	}
	c := exec.Command(words[0], words[1:]...)
	c.Stdout, c.Stderr, c.Env = os.Stdout, os.Stderr, os.Environ()
	if _, set := os.LookupEnv("LESS"); !set {
		c.Env = append(c.Env, "LESS=FRX")
	}
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err == nil {
		p.command, p.to = c, in
		signal.Ignore(os.Interrupt) // Ctrl-C is for the pager
	}
}

// Close writes the rest, and waits for the program.
func (p *Pager) Close() error {
	if p.to == nil {
		_, err := p.out.Write(p.pending.Bytes())
		return err
	}
	err := p.to.Close()
	if p.command != nil {
		_ = p.command.Wait()
	}
	return unlessLeft(err)
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

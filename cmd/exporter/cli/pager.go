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

// Pager writes to a terminal. What is longer than its screen goes through the program that PAGER names, or less. An empty PAGER, or cat, is
// none. Close waits until its user has left it.
type Pager struct {
	out     *screen.Screen
	pending bytes.Buffer // until there is more than the screen has room for
	command *exec.Cmd    // nil: it was not needed yet
	to      io.WriteCloser
}

// NewPager returns a pager of a terminal; nil if there is no terminal.
func NewPager(out *screen.Screen) *Pager {
	if out == nil {
		return nil
	}
	return &Pager{out: out}
}

// Write keeps text until it is too long for the screen. What a pager does not take any more, since its user has left it, is dropped.
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

// start starts the program; without one the text goes to the terminal.
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
		signal.Ignore(os.Interrupt) // Ctrl-C is the pager's
	}
}

// Close writes what is left, and waits for the program.
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

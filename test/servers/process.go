package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"kubecdc/test/child"
)

const (
	stopGrace = 2 * time.Minute       // from the polite signal to SIGKILL
	pollEvery = 20 * time.Millisecond // between two probes of a starting server
	tailLines = 20
)

// seldomCollect makes a server in Go collect garbage less often. It lives for a minute, has little on its heap, and would spend a fifth
// of its processor time on it.
const seldomCollect = "GOGC=400"

type command struct {
	name string // as errors call it
	path string
	args []string
	env  []string // added to this process's own
	dir  string
	log  string // file that stdout and stderr are appended to
	user *owner // nil: the user of this process
}

// process is one running server.
type process struct {
	*child.Child
	name string
	log  string
	from int64 // size of the log when the process started
	cmd  *exec.Cmd
}

// ServerError is a server that did not start, or did not stop.
type ServerError struct {
	Server string
	Log    string // path of its log file
	Tail   string // the log's last lines
	Err    error
}

func (e *ServerError) Error() string {
	return fmt.Sprintf("%s: %v\nlast lines of %s:\n%s", e.Server, e.Err, e.Log, e.Tail)
}

func (e *ServerError) Unwrap() error { return e.Err }

// startProcess starts c so that it dies with this process.
func startProcess(c command) (*process, error) {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	defer log.Close()
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	cmd := exec.Command(c.path, c.args...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.user.credential()}
	p := &process{name: c.name, log: c.log, from: from, cmd: cmd}
	if p.Child, err = child.Start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	return p, nil
}

// awaitReady calls probe until it succeeds, the process exits or ctx ends.
func (p *process) awaitReady(ctx context.Context, probe func(context.Context) error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		last := probe(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-p.Done():
			return p.fail(fmt.Errorf("exited while starting: %w", exitError(p.Wait())))
		case <-ctx.Done():
			return p.fail(fmt.Errorf("not ready: %w (%w)", last, context.Cause(ctx)))
		case <-tick.C:
		}
	}
}

func exitError(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// wait waits for a program that ends by itself.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.kill()
		return context.Cause(ctx)
	}
	if err := p.Wait(); err != nil {
		return p.fail(err)
	}
	return nil
}

// stop sends sig and waits for the end, by SIGKILL if it takes too long.
func (p *process) stop(sig syscall.Signal) error {
	if !p.running() {
		return nil
	}
	_ = p.cmd.Process.Signal(sig)
	select {
	case <-p.Done():
		return nil
	case <-time.After(stopGrace):
		p.kill()
		return p.fail(fmt.Errorf("did not stop within %s of %s: killed", stopGrace, sig))
	}
}

// kill is kill -9, and returns when the process is gone.
func (p *process) kill() {
	if p.running() {
		p.Kill()
	}
}

func (p *process) running() bool { return p != nil && p.Running() }

// output is what the process has written since it started.
func (p *process) output() string {
	f, err := os.Open(p.log)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.NewSectionReader(f, p.from, 1<<40))
	return string(text)
}

func (p *process) fail(err error) error {
	return &ServerError{Server: p.name, Log: p.log, Tail: lastLines(p.output(), tailLines), Err: err}
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"kubecdc/test/child"
)

// process is one of the programs that are measured.
type process struct {
	*child.Child
	cmd   *exec.Cmd
	lines chan string // what it says on stdout
	log   string
}

// start starts a program, whose stderr goes into a file.
func start(log string, env []string, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...), lines: make(chan string, 16), log: log}
	p.cmd.Env = append(os.Environ(), env...)
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	p.cmd.Stdout, p.cmd.Stderr = in, file
	if p.Child, err = child.Start(p.cmd); err != nil {
		out.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.read(out)
	return p, nil
}

func (p *process) read(out *os.File) {
	defer out.Close()
	defer close(p.lines)
	for s := bufio.NewScanner(out); s.Scan(); {
		p.lines <- s.Text()
	}
}

// await waits until the program says a word.
func (p *process) await(ctx context.Context, word string) error {
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				return p.failed("ended before it said " + word)
			}
			if line == word {
				return nil
			}
		case <-ctx.Done():
			return p.failed("did not say " + word)
		}
	}
}

func (p *process) failed(what string) error {
	text, _ := os.ReadFile(p.log)
	return fmt.Errorf("%s %s:\n%s", p.cmd.Path, what, text[max(0, len(text)-2000):])
}

// stop ends the program, at once if it does not react.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.Done():
	case <-time.After(20 * time.Second):
		p.Kill()
	}
}

// usage is what a process has used so far.
type usage struct {
	cpu  time.Duration // user and system
	peak int64         // bytes of memory, at most
	rss  int64         // bytes of memory, now
}

const tick = time.Second / 100 // USER_HZ of /proc is 100 on every Linux that Go runs on

func (p *process) usage() (u usage, err error) {
	pid := strconv.Itoa(p.cmd.Process.Pid)
	stat, err1 := os.ReadFile("/proc/" + pid + "/stat")
	status, err2 := os.ReadFile("/proc/" + pid + "/status")
	if err := errors.Join(err1, err2); err != nil {
		return u, p.failed("is gone: " + err.Error())
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	for _, f := range fields[11:13] { // utime, stime: proc(5)
		n, _ := strconv.ParseInt(f, 10, 64)
		u.cpu += time.Duration(n) * tick
	}
	u.peak, u.rss = kilobytes(status, "VmHWM:"), kilobytes(status, "VmRSS:")
	return u, nil
}

func kilobytes(status []byte, name string) int64 {
	_, after, _ := strings.Cut(string(status), name)
	fields := strings.Fields(after)
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(fields[0], 10, 64)
	return n << 10
}

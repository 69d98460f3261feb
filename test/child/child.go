// Package child starts processes that end with the process that started them, however that one ends. So tests, bench and demo leave no
// process behind. Outside Linux there is no parent-death signal, so a child outlives a parent that is killed.
package child

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Child is a process that runs, or has run.
type Child struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; read after done
}

// Start starts cmd in a process group of its own, which a terminal's Ctrl-C does not reach. It is killed when this process ends.
//
// The kernel sends the parent-death signal when the *thread* that forked ends (PR_SET_PDEATHSIG in prctl(2)). So the thread is reserved
// until the child has ended.
func Start(cmd *exec.Cmd) (*Child, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	dieWithParent(cmd.SysProcAttr)
	c := &Child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go c.supervise(started)
	return c, <-started
}

func (c *Child) supervise(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	c.err = c.cmd.Wait()
	close(c.done)
}

// Done is closed when the process has ended and its output has been read.
func (c *Child) Done() <-chan struct{} { return c.done }

// Wait waits for the end of the process, and returns how it ended: nil is exit code 0.
func (c *Child) Wait() error {
	<-c.done
	return c.err
}

// Kill kills the process and its children (kill -9), and returns when the process is gone.
func (c *Child) Kill() {
	if c.Running() {
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	}
	<-c.done
}

// Running reports whether the process has not ended yet.
func (c *Child) Running() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

package e2e

import (
	"runtime"
	"syscall"
)

func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// lockThread keeps the thread that a child's death signal is bound to.
func lockThread() { runtime.LockOSThread() }

package main

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// The bench ends with the go command that runs it, which passes no SIGTERM on. The signal belongs to the thread that
// asks for it; init runs on the main thread, which stays.
func init() {
	if os.Getppid() != 1 {
		_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0)
	}
}

// childAttributes make a child that dies with the thread that starts it.
func childAttributes() *syscall.SysProcAttr {
	runtime.LockOSThread()
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

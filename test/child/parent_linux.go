package child

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// EndWithParent has this process get SIGTERM when its parent ends: the go command, which runs the bench and the demo, passes no SIGTERM
// on. Call it from an init function. The signal belongs to the thread that asks for it, and init runs on the main thread, which never
// ends before the process.
func EndWithParent() {
	if os.Getppid() != 1 {
		_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0)
	}
}

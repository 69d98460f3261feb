package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"kubecdc/test/servers"
)

// watch ends test processes that stand still, and lets those go on that are only slow: its clock hardly passes while all processors are
// busy.
type watch struct {
	goTest int // the process of go test
	clock  *servers.Clock
}

func newWatch(goTest int) *watch { return &watch{goTest, servers.StartClock()} }

func (w *watch) moved() { w.clock = servers.StartClock() }

// check has the test processes print their stacks and end, if none has reported anything for twice as long as a test waits in vain.
func (w *watch) check() {
	if w.clock.Passed() < 2*servers.Patience {
		return
	}
	w.moved()
	for _, pid := range testsOf(w.goTest) {
		fmt.Printf("nothing was heard of the tests for long: process %d prints its stacks and ends\n", pid)
		_ = syscall.Kill(pid, syscall.SIGQUIT)
	}
}

// testsOf are the children of go test that are test binaries.
func testsOf(parent int) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, _ := os.ReadFile(path)
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest) // the state, then the parent
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		program, _, _ := strings.Cut(string(command), "\x00")
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(parent) && strings.HasSuffix(program, ".test") {
			pids = append(pids, pid)
		}
	}
	return pids
}

//go:build failpoints

package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// KUBECDC_FAILPOINT=name:n kills the process (kill -9) when it passes the step for the nth time.
var (
	name, times = setting()
	passed      atomic.Int64
)

func setting() (string, int64) {
	name, n, _ := strings.Cut(os.Getenv("KUBECDC_FAILPOINT"), ":")
	times, err := strconv.ParseInt(n, 10, 64)
	if err != nil {
		times = 1
	}
	return name, times
}

// Hit kills the process if this is the step and the time.
func Hit(step string) {
	if step == name && passed.Add(1) == times {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
}

//go:build failpoints

package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// points are the entries of KUBECDC_FAILPOINT. name:n kills the process (kill -9) when it reaches the step for the nth time.
// name:n:stop suspends it (SIGSTOP). The entries of a comma-separated list apply one after another, and each counts from the
// entry before it.
var points = struct {
	sync.Mutex
	list []point
}{list: setting(os.Getenv("KUBECDC_FAILPOINT"))}

type point struct {
	name   string
	times  int64
	signal syscall.Signal
}

func setting(text string) (list []point) {
	for _, part := range strings.Split(text, ",") {
		name, rest, _ := strings.Cut(part, ":")
		n, what, _ := strings.Cut(rest, ":")
		p := point{name: name, times: 1, signal: syscall.SIGKILL}
		if times, err := strconv.ParseInt(n, 10, 64); err == nil {
			p.times = times
		}
		if what == "stop" {
			p.signal = syscall.SIGSTOP
		}
		list = append(list, p)
	}
	return list
}

// Hit kills or suspends the process if step is the current entry's and n has been reached.
func Hit(step string) {
	points.Lock()
	defer points.Unlock()
	if len(points.list) == 0 || points.list[0].name != step {
		return
	}
	p := &points.list[0]
	if p.times--; p.times > 0 {
		return
	}
	points.list = points.list[1:]
	_ = syscall.Kill(os.Getpid(), p.signal)
	if p.signal == syscall.SIGKILL {
		select {} // the signal is on its way
	}
}

package servers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	atLeast = 2  // tests of all packages that use servers run at once, however busy the processors are
	usually = 6  // tests, if the processors have some time to spare
	atMost  = 12 // tests, if they have much

	someSpare, muchSpare = 0.2, 0.4 // parts of the processors' time
)

// admitted are the tests of this process that may use servers, by the name of the outermost one. Its subtests need no admission.
var admitted struct {
	sync.Mutex
	tests map[string]*admission
}

type admission struct {
	users int // the test and its subtests that have asked
	wait  func() (release func())
}

// admit waits until the machine has room for one more test that uses servers. There is room if fewer than atLeast run in all processes,
// or if the processors have time to spare. So tests hardly take more than the machine has, and go on where others load it. Much time is
// to spare while tests only wait. go test must let all tests of a package run in parallel (-parallel). Otherwise tests that wait here would
// keep the subtests of an admitted test from running, and it would keep its place.
func admit(t testing.TB) {
	t.Helper()
	root, _, _ := strings.Cut(t.Name(), "/")
	admitted.Lock()
	a := admitted.tests[root]
	if a == nil {
		a = &admission{wait: sync.OnceValue(awaitRoom)}
		if admitted.tests == nil {
			admitted.tests = map[string]*admission{}
		}
		admitted.tests[root] = a
	}
	a.users++
	admitted.Unlock()
	release := a.wait()
	t.Cleanup(func() {
		admitted.Lock()
		defer admitted.Unlock()
		if a.users--; a.users == 0 {
			delete(admitted.tests, root)
			release()
		}
	})
}

func awaitRoom() (release func()) {
	dir, err := Dir()
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return func() {} // the server's start says so
	}
	unlock, err := lockFile(filepath.Join(dir, "admit.lock")) // one waits; the others wait for it
	if err != nil {
		return func() {}
	}
	defer unlock()
	for {
		place, running := freePlace(dir)
		if place != nil && (running < atLeast || spare() > spareFor(running)) {
			return func() { place.Close() }
		}
		if place != nil {
			place.Close()
		} else {
			time.Sleep(spareWindow)
		}
	}
}

// freePlace locks a place that no running test has, if there is one, and counts those that are taken. A lock ends with its process.
func freePlace(dir string) (free *os.File, taken int) {
	for n := range atMost {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("test-%d.lock", n)), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			continue
		}
		switch {
		case syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil:
			taken++
			f.Close()
		case free != nil:
			f.Close()
		default:
			free = f
		}
	}
	return free, taken
}

func spareFor(running int) float64 {
	if running < usually {
		return someSpare
	}
	return muchSpare
}

const spareWindow = 500 * time.Millisecond

// spare is which part of the processors' time nobody needs now. It takes spareWindow to find out.
func spare() float64 {
	before, known := idled()
	time.Sleep(spareWindow)
	after, _ := idled()
	if !known {
		return 1
	}
	return float64(after-before) / float64(spareWindow) / float64(runtime.NumCPU())
}

// oneAtATime starts a server while no other process starts one: a start keeps a processor busy for seconds.
func oneAtATime(ctx context.Context, start func(context.Context) error) error {
	dir, err := Dir()
	if err != nil {
		return err
	}
	unlock, err := lockFile(filepath.Join(dir, "start.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	return start(ctx)
}

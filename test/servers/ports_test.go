package servers

import (
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// A port that was found free can be listened on at once, also while this process starts others. A new process has all its parent's
// sockets for a moment.
func TestAFreePortIsFreeWhileProcessesStart(t *testing.T) {
	var others sync.WaitGroup
	defer others.Wait()
	done := make(chan struct{})
	defer close(done)
	for range 4 {
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = exec.Command(os.Args[0], "-test.run", "^$").Run()
				}
			}
		})
	}
	for range portsInBlock {
		address, err := FreeAddress()
		must(t, err)
		l, err := net.Listen("tcp", address)
		must(t, err)
		defer l.Close()
	}
}

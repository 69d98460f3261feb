package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// Ports are taken from below the range that the kernel uses for outgoing connections (32768 and up on Linux). Otherwise a server that is
// down for a moment would lose its port to any client on the machine. Each process takes them from a block of its own, so it does not
// lose them to the servers of another package's tests either.
const (
	firstPort    = 20000
	lastPort     = 32000
	portsInBlock = 400
)

var ports struct {
	sync.Mutex
	blocks []*portBlock // held to the end, with their locks
	left   []int        // not handed out yet
}

// portBlock is this process's as long as it holds the lock on a file.
type portBlock struct {
	first int
	lock  *os.File
}

func takeBlock() (*portBlock, error) {
	base, err := Dir()
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(base, "ports")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("take a block of ports: %w", err)
	}
	for first := firstPort; first < lastPort; first += portsInBlock {
		f, err := os.OpenFile(filepath.Join(folder, strconv.Itoa(first)), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return nil, fmt.Errorf("take a block of ports: %w", err)
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			return &portBlock{first: first, lock: f}, nil
		}
		f.Close()
	}
	return nil, fmt.Errorf("take a block of ports: other processes hold all locks in %s", folder)
}

// freePort is a loopback port that nobody listens on, and that this process hands out once only.
func freePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for {
		for len(ports.left) > 0 {
			port := ports.left[0]
			ports.left = ports.left[1:]
			if nobodyListens(port) {
				return port, nil
			}
		}
		block, err := takeBlock()
		if err != nil {
			return 0, err
		}
		ports.blocks = append(ports.blocks, block)
		for _, n := range rand.Perm(portsInBlock) {
			ports.left = append(ports.left, block.first+n)
		}
	}
}

// FreeAddress is a loopback address for a server of the caller's own, which it keeps over restarts.
func FreeAddress() (string, error) {
	port, err := freePort()
	return loopback(port), err
}

func freePorts(n int) ([]int, error) {
	found := make([]int, n)
	for i := range found {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		found[i] = port
	}
	return found, nil
}

// nobodyListens asks who listens there. To listen would do harm: a process that this one starts meanwhile has the socket, too,
// until it runs its program.
func nobodyListens(port int) bool {
	c, err := net.Dial("tcp", loopback(port))
	if err == nil {
		c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

func portOf(address string) int {
	_, port, _ := net.SplitHostPort(address)
	n, err := strconv.Atoi(port)
	if err != nil {
		panic(fmt.Sprintf("no port in %q", address))
	}
	return n
}

package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are taken from below the range that the kernel uses for outgoing
// connections (32768 and up on Linux): a server that is down for a moment
// would else lose its port to any client on the machine.
const (
	firstPort = 20000
	lastPort  = 32000
)

var ports = struct {
	sync.Mutex
	taken map[int]bool
}{taken: map[int]bool{}}

// freePort is a loopback port that nobody listens on, and that this process
// hands out once only.
func freePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if !ports.taken[port] && canListen(port) {
			ports.taken[port] = true
			return port, nil
		}
	}
	return 0, errors.New("find a free port: tried 1000, none is free")
}

// FreeAddress is a loopback address for a server of the caller's own, which it
// keeps over restarts.
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

func canListen(port int) bool {
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
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

package servers

import (
	"net"

	"golang.org/x/sys/unix"
)

// ignorePackets drops what arrives before TCP sees it: a socket filter (SO_ATTACH_FILTER in socket(7)) that takes nothing.
func ignorePackets(c net.Conn) error {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	nothing := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0}
	control := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing})
	})
	if err == nil {
		err = control
	}
	return err
}

package pgdb

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout bounds how long sent data may be unacknowledged: TCP_USER_TIMEOUT in tcp(7).
func setUserTimeout(conn syscall.RawConn, limit time.Duration) (err error) {
	control := conn.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	})
	if err == nil {
		err = control
	}
	return err
}

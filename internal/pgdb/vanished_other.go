//go:build !linux

package pgdb

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing where there is no such option: TCP itself gives up later.
func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }

//go:build !linux

package servers

import "syscall"

// processAttributes has no parent-death signal to offer here: a server
// outlives an owner that is killed without a chance to call StopAll.
func processAttributes(user *owner) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: user.credential()}
}

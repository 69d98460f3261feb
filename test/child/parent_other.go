//go:build !linux

package child

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}

// EndWithParent does nothing here.
func EndWithParent() {}

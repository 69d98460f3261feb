//go:build !linux

package main

import "syscall"

// childAttributes: there is no parent-death signal here.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

package servers

import "syscall"

func processAttributes(user *owner) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if user != nil {
		attr.Credential = &syscall.Credential{Uid: user.uid, Gid: user.gid}
	}
	return attr
}

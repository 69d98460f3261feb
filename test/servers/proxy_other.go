//go:build !linux

package servers

import (
	"errors"
	"net"
)

func ignorePackets(net.Conn) error { return errors.New("packets can be ignored on Linux only") }

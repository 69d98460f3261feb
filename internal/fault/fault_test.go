package fault_test

import (
	"fmt"
	"net"
	"net/url"
	"syscall"
	"testing"

	"kubecdc/internal/fault"
)

// What fails for one cause has one public form, whatever was requested, by whom, and from which port.
func TestThePublicFormIsTheCause(t *testing.T) {
	for want, err := range map[string]func(i int) error{
		"probe: dial tcp 10.0.0.1:6443: connection refused": func(i int) error {
			dial := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 6443}, Err: syscall.ECONNREFUSED}
			return fmt.Errorf("probe: %w", &url.Error{Op: "Get", URL: fmt.Sprint("https://10.0.0.1:6443/api/v1/kind", i), Err: dial})
		},
		"read tcp 10.0.0.1:6443: connection reset by peer": func(i int) error {
			return &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(10, 1, 0, 7), Port: 4000 + i},
				Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 6443}, Err: syscall.ECONNRESET}
		},
		"lookup kafka: read udp 10.96.0.10:53: i/o timeout": func(i int) error {
			return &net.DNSError{Name: "kafka", Err: fmt.Sprintf("read udp 10.1.0.7:%d->10.96.0.10:53: i/o timeout", 4000+i)}
		},
		"slot 0: no": func(i int) error {
			return fmt.Errorf("slot 0: %w", fault.WithPublic(fmt.Errorf("list kind%d: no", i), "no"))
		},
	} {
		if one, two := fault.Public(err(1)), fault.Public(err(2)); one != want || two != want {
			t.Errorf("%q and %q, not %q", one, two, want)
		}
	}
}

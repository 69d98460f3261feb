package servers_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"kubecdc/test/servers"
)

// echo listens and sends back what it gets.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); io.Copy(c, c) }()
		}
	}()
	return l.Addr().String()
}

func proxy(t *testing.T) *servers.Proxy {
	t.Helper()
	p, err := servers.NewProxy(echo(t))
	check(t, err)
	t.Cleanup(p.Close)
	return p
}

func dial(t *testing.T, p *servers.Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Address)
	check(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends text and reads as much back.
func ask(c net.Conn, text string) (string, error) {
	if _, err := c.Write([]byte(text)); err != nil {
		return "", err
	}
	buf := make([]byte, len(text))
	n, err := io.ReadFull(c, buf)
	return string(buf[:n]), err
}

func mustAsk(t *testing.T, c net.Conn, text string) {
	t.Helper()
	got, err := ask(c, text)
	check(t, err)
	if got != text {
		t.Fatalf("got %q back, want %q", got, text)
	}
}

func TestProxyPasses(t *testing.T) {
	p := proxy(t)
	c := dial(t, p)
	mustAsk(t, c, strings.Repeat("all of it, ", 50_000)[:60_000])
	check(t, c.(*net.TCPConn).CloseWrite())
	rest, err := io.ReadAll(c)
	check(t, err)
	if len(rest) != 0 {
		t.Fatalf("%d bytes after the end", len(rest))
	}
}

func TestProxyCutsAndRestores(t *testing.T) {
	p := proxy(t)
	c := dial(t, p)
	mustAsk(t, c, "before")
	p.Cut()
	if _, err := ask(c, "during"); err == nil {
		t.Fatal("an open connection outlived the cut")
	}
	if _, err := net.Dial("tcp", p.Address); err == nil {
		t.Fatal("a new connection was taken during the cut")
	}
	check(t, p.Restore())
	mustAsk(t, dial(t, p), "after")
}

func TestProxyFreezes(t *testing.T) {
	p := proxy(t)
	c := dial(t, p)
	mustAsk(t, c, "before")
	p.Freeze()
	for _, conn := range []net.Conn{c, dial(t, p)} {
		check(t, conn.SetDeadline(time.Now().Add(50*time.Millisecond)))
		if got, err := ask(conn, "held"); err == nil {
			t.Fatalf("%q came through a frozen proxy", got)
		}
		check(t, conn.SetDeadline(time.Time{}))
	}
	check(t, p.Restore())
	buf := make([]byte, 4)
	_, err := io.ReadFull(c, buf)
	check(t, err)
}

func TestProxyCutsInTheMiddle(t *testing.T) {
	p := proxy(t)
	p.CutAfter(10)
	got, err := ask(dial(t, p), "0123456789abcdef")
	if got != "0123456789" || err == nil {
		t.Fatalf("got %q, %v; want ten bytes and an error", got, err)
	}
	mustAsk(t, dial(t, p), "once only, after that all passes")
}

func TestProxySlows(t *testing.T) {
	p := proxy(t)
	p.Slow(10_000)
	c, start := dial(t, p), time.Now()
	mustAsk(t, c, strings.Repeat("x", 3000))
	if took := time.Since(start); took < 200*time.Millisecond {
		t.Fatalf("3,000 bytes at 10,000 a second took %s", took)
	}
}

func TestProxyLeadsElsewhere(t *testing.T) {
	p := proxy(t)
	c := dial(t, p)
	mustAsk(t, c, "here")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	p.Retarget(l.Addr().String())
	p.Drop()
	dial(t, p)
	there, err := l.Accept()
	check(t, err)
	there.Close()
}

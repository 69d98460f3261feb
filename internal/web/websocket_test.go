package web

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// Connections that are no HTTP any more count in the bound until they are closed, and end with the server.
func TestHijackedConnectionsCount(t *testing.T) {
	const most = 3
	s, err := Listen(Options{Listen: "127.0.0.1:0", MostConnections: most, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	hijacked := make(chan net.Conn, 10)
	go s.Serve(s.Long(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
		}
		hijacked <- conn
	})))
	open := func() (client net.Conn, server net.Conn) {
		client, err := net.Dial("tcp", s.Addr())
		if err == nil {
			_, err = io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		}
		must(t, err)
		return client, <-hijacked
	}
	isClosed := func(client net.Conn) bool {
		_ = client.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, err := bufio.NewReader(client).ReadByte()
		return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
	}
	first, _ := open()
	second, itsServer := open()
	third, _ := open()
	_ = itsServer.Close() // so there is a place
	if !isClosed(second) {
		t.Error("a closed connection is open")
	}
	fourth, _ := open()
	fifth, _ := open()
	if !isClosed(first) {
		t.Error("one connection too many closes none")
	}
	if _, err := io.WriteString(third, "x"); err != nil {
		t.Error("a connection that was closed has counted")
	}
	_ = s.Close()
	for _, client := range []net.Conn{third, fourth, fifth} {
		if !isClosed(client) {
			t.Error("the connection outlives the server")
		}
	}
}

package web

import (
	"bufio"
	"encoding/base64"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// IsSocket reports whether a request begins a WebSocket.
func IsSocket(r *http.Request) bool {
	upgrades := slices.ContainsFunc(strings.Split(r.Header.Get("Connection"), ","), func(option string) bool {
		return strings.EqualFold(strings.TrimSpace(option), "upgrade")
	})
	return upgrades && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

const protocols = "Sec-Websocket-Protocol"

// tokenProtocol begins the name of a subprotocol that is a token, since a page can't send a header (k8s.io/apiserver,
// pkg/authentication/request/websocket).
const tokenProtocol = "base64url.bearer.authorization.k8s.io."

// socketToken returns the token of a WebSocket, or "", and the other subprotocols.
func socketToken(r *http.Request) (token string, others []string) {
	for _, line := range r.Header.Values(protocols) {
		for _, protocol := range strings.Split(line, ",") {
			protocol = strings.TrimSpace(protocol)
			encoded, isToken := strings.CutPrefix(protocol, tokenProtocol)
			if decoded, err := base64.RawURLEncoding.DecodeString(encoded); isToken && err == nil {
				token = string(decoded)
			}
			if !isToken {
				others = append(others, protocol)
			}
		}
	}
	if !IsSocket(r) || len(others) == 0 { // a page needs a subprotocol that the answer can name
		token = ""
	}
	return token, others
}

// SendsItsToken reports whether the sender of a request has written its token into it, and not a browser that remembers a
// password.
func SendsItsToken(r *http.Request) bool {
	token, _ := socketToken(r)
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return token != "" || strings.EqualFold(scheme, "Bearer")
}

// WithoutToken returns the request without the token among its subprotocols, one of which the answer names. The request itself is
// still its sender's.
func WithoutToken(r *http.Request) *http.Request {
	_, others := socketToken(r)
	r = r.Clone(r.Context())
	if r.Header.Del(protocols); len(others) > 0 {
		r.Header.Set(protocols, strings.Join(others, ", "))
	}
	return r
}

// Hijack is for WebSockets. The connection still counts, its writes have the deadline of a long answer, and it ends with the
// server.
func (l *long) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := l.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	l.began = true
	h := &hijacked{conn, l}
	return h, bufio.NewReadWriter(buffered.Reader, bufio.NewWriter(h)), nil
}

type hijacked struct {
	net.Conn
	answer *long
}

func (h *hijacked) Write(part []byte) (int, error) {
	_ = h.SetWriteDeadline(time.Now().Add(h.answer.server.within))
	return h.Conn.Write(part)
}

func (h *hijacked) Close() error {
	h.answer.server.changed(h.Conn, http.StateClosed)
	return h.Conn.Close()
}

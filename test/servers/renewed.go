package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// Certified returns a certificate for 127.0.0.1 that is its own authority, and its PEM.
func Certified(t testing.TB) (*tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := certificate("another CA")
	template.IsCA, template.BasicConstraintsValid, template.IPAddresses = true, true, []net.IP{net.IPv4(127, 0, 0, 1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Renewed is a server with TLS and HTTP/2 whose certificate can be renewed.
type Renewed struct {
	*httptest.Server
	now atomic.Pointer[tls.Certificate]
}

// NewRenewed starts a server that stops when the test ends, and returns its certificate's authority.
func NewRenewed(t testing.TB, handler http.HandlerFunc) (s *Renewed, authority []byte) {
	t.Helper()
	s = &Renewed{Server: httptest.NewUnstartedServer(handler)}
	s.EnableHTTP2, s.Config.ErrorLog = true, log.New(t.Output(), "", 0)
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*s.now.Load()}, NextProtos: []string{"h2", "http/1.1"}}, nil
	}}
	authority = s.Renew(t)
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s, authority
}

// Renew gives the server a certificate of another authority, and closes all connections.
func (s *Renewed) Renew(t testing.TB) (authority []byte) {
	t.Helper()
	certificate, authority := Certified(t)
	s.now.Store(certificate)
	s.CloseClientConnections()
	return authority
}

package settings

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"kubecdc/sinks/kafka/internal/cluster"
)

// dialTimeout bounds the TCP connection to one of several brokers. Transport.DialTimeout bounds all of them together, with TLS
// and login.
const dialTimeout = 3 * time.Second

// Dial connects to a broker. It reads the files for TLS each time, since certificates are renewed.
func (c *Config) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	if err != nil || c.TLS == nil {
		return conn, err
	}
	secure, err := c.handshake(ctx, conn, address)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

func (c *Config) handshake(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	settings, err := c.TLS()
	if err != nil {
		return nil, &FileError{err}
	}
	if settings.ServerName == "" {
		settings = settings.Clone()
		settings.ServerName, _, _ = net.SplitHostPort(address)
	}
	s := &tlsConn{Conn: tls.Client(conn, settings), broker: address}
	if len(settings.Certificates) > 0 {
		s.client = settings.Certificates[0].Leaf
	}
	if err := s.HandshakeContext(ctx); err != nil {
		return nil, s.explain(err)
	}
	return s, nil
}

// tlsConn is a connection over TLS. With TLS 1.3 a broker refuses the client's certificate only after the handshake, so the first
// read fails.
type tlsConn struct {
	*tls.Conn
	broker   string
	client   *x509.Certificate // the client's; nil if there is none
	answered bool
}

func (s *tlsConn) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if n > 0 {
		s.answered = true
	}
	if err != nil && !s.answered {
		err = s.explain(err)
	}
	return n, err
}

// explain turns an error about a certificate into a CertificateError.
func (s *tlsConn) explain(err error) error {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return &CertificateError{Whose: "broker " + s.broker + "'s certificate", Cert: invalid.Cert, Err: err}
	}
	refused := refusesCertificate(err)
	if s.client == nil && refused {
		return &CertificateError{Whose: "broker " + s.broker + " wants a client certificate (KUBECDC_KAFKA_TLS_CERT)", Err: err}
	}
	if s.client != nil && (refused || lifeOf(s.client) != "") {
		whose := "broker " + s.broker + " refuses the client certificate (KUBECDC_KAFKA_TLS_CERT)"
		return &CertificateError{Whose: whose, Cert: s.client, Err: err}
	}
	return err
}

// refusesCertificate reports whether the broker has sent an alert about the client's certificate (RFC 8446, 6.2).
func refusesCertificate(err error) bool {
	alert, ok := errors.AsType[*net.OpError](err)
	return ok && alert.Op == "remote error" && strings.Contains(alert.Err.Error(), "certificate")
}

// FileError says that a file in the settings can't be used, which was valid at the start. Its renewal may be in progress, so
// the connection is retried.
type FileError struct{ error }

func (e *FileError) Unwrap() error { return e.error }

// CertificateError says that one side refuses the other's certificate.
type CertificateError struct {
	Whose string            // the owner of the certificate, and which side refuses it
	Cert  *x509.Certificate // nil if there is none
	Err   error
}

func (e *CertificateError) Error() string {
	if e.Cert == nil {
		return fmt.Sprintf("%s: %v", e.Whose, e.Err)
	}
	life := lifeOf(e.Cert)
	if life == "" {
		life = "valid until " + e.Cert.NotAfter.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%s: %s, %s: %v", e.Whose, e.Cert.Subject, life, e.Err)
}

func (e *CertificateError) Unwrap() error { return e.Err }

// Is makes errors.Is match cluster.ErrCertificate, which the client does not retry.
func (e *CertificateError) Is(target error) bool { return target == cluster.ErrCertificate }

// lifeOf says that a certificate has expired or is not valid yet. It returns "" for a valid one.
func lifeOf(cert *x509.Certificate) string {
	switch now := time.Now(); {
	case now.After(cert.NotAfter):
		return "expired at " + cert.NotAfter.UTC().Format(time.RFC3339)
	case now.Before(cert.NotBefore):
		return "not valid before " + cert.NotBefore.UTC().Format(time.RFC3339)
	}
	return ""
}

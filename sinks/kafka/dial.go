package kafka

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

// dialTimeout bounds the TCP connection to one of several brokers; all of them together, with TLS and login, have
// Transport.DialTimeout.
const dialTimeout = 3 * time.Second

// dial connects to a broker. What TLS needs is read from its files each time, since certificates are renewed.
func (c *Config) dial(ctx context.Context, network, address string) (net.Conn, error) {
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
		return nil, &fileError{err}
	}
	if settings.ServerName == "" {
		settings = settings.Clone()
		settings.ServerName, _, _ = net.SplitHostPort(address)
	}
	s := &secured{Conn: tls.Client(conn, settings), broker: address}
	if len(settings.Certificates) > 0 {
		s.shown = settings.Certificates[0].Leaf
	}
	if err := s.HandshakeContext(ctx); err != nil {
		return nil, s.explain(err)
	}
	return s, nil
}

// secured is a connection over TLS. With TLS 1.3 a broker that refuses the client's certificate says so, or hangs up,
// only when the first answer is read.
type secured struct {
	*tls.Conn
	broker   string
	shown    *x509.Certificate // the client's; nil where there is none
	answered bool
}

func (s *secured) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if n > 0 {
		s.answered = true
	}
	if err != nil && !s.answered {
		err = s.explain(err)
	}
	return n, err
}

// explain says whose certificate it is that is refused, where it is that.
func (s *secured) explain(err error) error {
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return &CertificateError{Whose: "broker " + s.broker + "'s certificate", Cert: invalid.Cert, Err: err}
	}
	refused := refusesCertificate(err)
	if s.shown == nil && refused {
		return &CertificateError{Whose: "broker " + s.broker + " wants a client certificate (KUBECDC_KAFKA_TLS_CERT)", Err: err}
	}
	if s.shown != nil && (refused || lifeOf(s.shown) != "") {
		return &CertificateError{Whose: "broker " + s.broker + " refuses the client certificate (KUBECDC_KAFKA_TLS_CERT)", Cert: s.shown, Err: err}
	}
	return err
}

// refusesCertificate: the broker has sent an alert about the client's certificate (RFC 8446, 6.2).
func refusesCertificate(err error) bool {
	var alert *net.OpError
	return errors.As(err, &alert) && alert.Op == "remote error" && strings.Contains(alert.Err.Error(), "certificate")
}

// fileError is a file of a setting that could be used at the start and can't be now. It may be in the middle of being
// renewed, so it is tried again.
type fileError struct{ error }

func (e *fileError) Unwrap() error { return e.error }

// CertificateError is a certificate that one side does not take.
type CertificateError struct {
	Whose string
	Cert  *x509.Certificate // nil where there is none
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

// Is makes the client treat it as a refused certificate.
func (e *CertificateError) Is(target error) bool { return target == cluster.ErrCertificate }

// lifeOf is empty for a certificate that is valid now.
func lifeOf(cert *x509.Certificate) string {
	switch now := time.Now(); {
	case now.After(cert.NotAfter):
		return "expired at " + cert.NotAfter.UTC().Format(time.RFC3339)
	case now.Before(cert.NotBefore):
		return "not valid before " + cert.NotBefore.UTC().Format(time.RFC3339)
	}
	return ""
}

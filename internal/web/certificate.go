package web

import (
	"crypto/tls"
	"log/slog"
	"sync"
)

// certificate is a certificate that is read from its files for each connection, so that it can be rotated. If that fails, the
// last one is served, since the two files of a rotation do not always change at once.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu     sync.Mutex
	last   *tls.Certificate
	failed string // the last failure, so that it is logged once
}

func (c *certificate) load(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.last, c.failed = &pair, ""
	case c.last == nil:
		return nil, err
	case err.Error() != c.failed:
		c.failed = err.Error()
		c.log.Warn("KUBECDC_HTTP_TLS_CERT and KUBECDC_HTTP_TLS_KEY can't be read: the last certificate is still served", "error",
			err)
	}
	return c.last, nil
}

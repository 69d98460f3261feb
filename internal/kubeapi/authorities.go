package kubeapi

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"sync"

	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"kubecdc/internal/fault"
)

// RenewAuthorities makes the config's clients read the file of the API server's authorities again as soon as they don't trust the
// API server's certificate. client-go reads it every five minutes (transport/ca_rotation.go), as long as etcd may keep its
// history.
func RenewAuthorities(config *rest.Config) {
	if config.CAFile == "" || len(config.CAData) > 0 {
		return
	}
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		if base(rt) == nil {
			return rt
		}
		return &renewing{file: config.CAFile, first: rt, now: rt}
	})
}

// renewing is a transport that trusts the authorities in a file.
type renewing struct {
	file  string
	first http.RoundTripper // client-go's. While it is in use, client-go renews the client's certificate

	mu  sync.Mutex
	now http.RoundTripper
	pem []byte // the authorities that the transport now uses, or nil for the authorities of first
}

// IsUntrusted reports that a server's certificate is not trusted.
func IsUntrusted(err error) bool { return fault.Is[*tls.CertificateVerificationError](err) }

// RoundTrip sends a request again if its server is trusted by a new content of the file. Nothing of it was sent before.
func (t *renewing) RoundTrip(r *http.Request) (*http.Response, error) {
	used := t.current()
	resp, err := used.RoundTrip(r)
	if !IsUntrusted(err) || !t.renew(used) {
		return resp, err
	}
	again := r.Clone(r.Context())
	if r.Body != nil {
		if r.GetBody == nil {
			return nil, err
		}
		if again.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	return t.current().RoundTrip(again)
}

func (t *renewing) WrappedRoundTripper() http.RoundTripper { return t.current() }

func (t *renewing) current() http.RoundTripper {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now
}

// renew reports whether there is another transport than the one that was used. A file without a certificate changes nothing.
func (t *renewing) renew(used http.RoundTripper) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now != used {
		return true
	}
	pem, err := os.ReadFile(t.file)
	pool := x509.NewCertPool()
	if err != nil || bytes.Equal(pem, t.pem) || !pool.AppendCertsFromPEM(pem) {
		return false
	}
	old := base(used)
	fresh := old.Clone()
	fresh.TLSClientConfig.RootCAs = pool
	fresh.TLSNextProto = nil // else both use the connections of one HTTP/2 transport
	t.now, t.pem = net.SetTransportDefaults(fresh), pem
	old.CloseIdleConnections()
	return true
}

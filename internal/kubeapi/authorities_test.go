package kubeapi_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/internal/kubeapi"
)

// certified returns a certificate that is its own authority, and its PEM.
func certified(t *testing.T) (*tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The API server has a certificate of another authority. A client trusts it as soon as its file has that authority, with all that
// is sent at once, and again after the next change. Another content of the file changes nothing.
func TestANewAuthorityIsTrustedAtOnce(t *testing.T) {
	var now atomic.Pointer[tls.Certificate]
	first, authority := certified(t)
	now.Store(first)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto+" ")
		_, _ = io.Copy(w, r.Body)
	}))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*now.Load()}, NextProtos: []string{"h2", "http/1.1"}}, nil
	}}
	server.StartTLS()
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "ca.crt")
	must(t, os.WriteFile(file, authority, 0o600))
	config := &rest.Config{Host: server.URL, BearerToken: "t", TLSClientConfig: rest.TLSClientConfig{CAFile: file}}
	kubeapi.NameProxies(config)
	kubeapi.RenewAuthorities(config)
	client, err := rest.HTTPClientFor(config)
	must(t, err)
	ask := func() error {
		resp, err := client.Post(server.URL, "text/plain", strings.NewReader("body"))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "HTTP/2.0 body" {
			t.Errorf("the answer is %q, %v", text, err)
		}
		return nil
	}
	untrusted := func() {
		t.Helper()
		err := ask()
		for err != nil && !kubeapi.IsUntrusted(err) { // the connection was closed
			err = ask()
		}
		if err == nil {
			t.Fatal("the certificate is trusted")
		}
	}
	must(t, ask())
	for range 2 {
		next, authority := certified(t)
		now.Store(next)
		server.CloseClientConnections()
		for _, bad := range []string{"", "no certificate", "-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----\n"} {
			untrusted()
			must(t, os.WriteFile(file, []byte(bad), 0o600))
		}
		untrusted()
		must(t, os.WriteFile(file, authority, 0o600))
		errs := make(chan error)
		for range 10 {
			go func() { errs <- ask() }()
		}
		for range 10 {
			must(t, <-errs)
		}
	}
}

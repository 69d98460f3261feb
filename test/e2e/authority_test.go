package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"

	"kubecdc/test/servers"
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

// The API server gets a certificate of another authority. The exporter goes on as soon as the kubeconfig's file has it. Nothing
// is lost.
func TestANewAuthorityOfTheAPIServerIsTrustedAtOnce(t *testing.T) {
	t.Parallel()
	w := NewFileWorld(t)
	transport, err := rest.TransportFor(w.Kube.Config)
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: w.Kube.Address})
	proxy.Transport, proxy.FlushInterval = transport, -1
	certificate, authority := certified(t)
	var now atomic.Pointer[tls.Certificate]
	now.Store(certificate)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { _ = recover() }() // the proxy panics if its client has gone away
		proxy.ServeHTTP(w, r)
	}))
	server.EnableHTTP2, server.Config.ErrorLog = true, log.New(t.Output(), "", 0)
	server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*now.Load()}, NextProtos: []string{"h2", "http/1.1"}}, nil
	}}
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	kubeconfig, file := filepath.Join(t.TempDir(), "kubeconfig"), filepath.Join(t.TempDir(), "ca.crt")
	must(t, os.WriteFile(file, authority, 0o600))
	must(t, writeContext(kubeconfig, &api.Cluster{Server: server.URL, CertificateAuthority: file}, &api.AuthInfo{}))

	kinds := []Kind{ConfigMaps, Roles}
	writer := w.Writer(t, kinds)
	e := StartExporter(t, "the exporter", w.With("KUBECONFIG", kubeconfig, "KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_PROOF_INTERVAL", "1s"))
	writer.Run(20)
	w.AwaitComplete(t, writer, kinds)
	for range 2 {
		certificate, authority = certified(t)
		now.Store(certificate)
		server.CloseClientConnections()
		writer.Run(20)
		Await(t, "/readyz to say that the certificate is not trusted", func() (bool, error) {
			return strings.Contains(e.Wrong(), "x509"), nil
		})
		must(t, os.WriteFile(file, []byte("no certificate"), 0o600))
		writer.Run(20)
		must(t, os.WriteFile(file, authority, 0o600))
		trusted := servers.StartClock()
		w.AwaitComplete(t, writer, kinds)
		e.AwaitReady(t)
		if took := trusted.Passed(); took > 30*time.Second {
			t.Errorf("complete %s after the file had the new authority", took)
		}
		t.Logf("complete and ready %s after the file had the new authority", trusted.Passed().Round(time.Millisecond))
	}
	Judge(t, w.Kube, w.Read(t), w.Prefix, kinds).Demand(t, 0)
}

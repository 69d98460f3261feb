package e2e

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"

	"kubecdc/test/servers"
)

// The API server gets a certificate of another authority. The exporter goes on as soon as the kubeconfig's file has it. Nothing
// is lost.
func TestANewAuthorityOfTheAPIServerIsTrustedAtOnce(t *testing.T) {
	t.Parallel()
	w := NewFileWorld(t)
	transport, err := rest.TransportFor(w.Kube.Config)
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: w.Kube.Address})
	proxy.Transport, proxy.FlushInterval = transport, -1
	server, authority := servers.NewRenewed(t, func(w http.ResponseWriter, r *http.Request) {
		defer func() { _ = recover() }() // the proxy panics if its client has gone away
		proxy.ServeHTTP(w, r)
	})
	kubeconfig, file := filepath.Join(t.TempDir(), "kubeconfig"), filepath.Join(t.TempDir(), "ca.crt")
	must(t, os.WriteFile(file, authority, 0o600))
	must(t, writeContext(kubeconfig, &api.Cluster{Server: server.URL, CertificateAuthority: file}, &api.AuthInfo{}))

	kinds := []Kind{ConfigMaps, Roles}
	writer := w.Writer(t, kinds)
	e := StartExporter(t, "the exporter", w.With("KUBECONFIG", kubeconfig, "KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_PROOF_INTERVAL", "1s"))
	writer.Run(20)
	w.AwaitComplete(t, writer, kinds)
	for range 2 {
		authority = server.Renew(t)
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

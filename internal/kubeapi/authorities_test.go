package kubeapi_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"kubecdc/internal/kubeapi"
	"kubecdc/test/require"
	"kubecdc/test/servers"
)

var must = require.NoError

// The API server has a certificate of another authority. A client trusts it as soon as its file has that authority, with all that
// is sent at once, and again after the next change. Another content of the file changes nothing.
func TestANewAuthorityIsTrustedAtOnce(t *testing.T) {
	server, authority := servers.NewRenewed(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto+" ")
		_, _ = io.Copy(w, r.Body)
	})
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
		authority := server.Renew(t)
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

package source_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source"
	"kubecdc/test/servers"
)

func TestWhatTellsNothingOfTheClusterIsAnError(t *testing.T) {
	for _, c := range []struct {
		step step
		says string
	}{
		{step{status: 401, body: failure(401, "Unauthorized")}, "refuses the credentials (401"},
		{step{status: 403, body: failure(403, "Forbidden")}, "grant get on namespace kube-system, or set certificate-authority"},
		{step{status: 404, body: failure(404, "NotFound")}, "grant get on namespace kube-system, or set certificate-authority"},
		{step{status: 403, body: "<html>blocked</html>"}, "a proxy, or whatever else is at"},
		{step{status: 400, body: failure(400, "BadRequest")}, "answers 400"},
		{step{body: `{"kind":"Namespace"}`}, "lacks name, uid"},
		{step{body: "<html>log in</html>"}, "read namespace kube-system"},
	} {
		synctest.Test(t, func(t *testing.T) {
			if id, err := identify(t, &script{steps: []step{c.step}}); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%d %s: %v, %v; want an error that says %q", c.step.status, c.step.body, id, err, c.says)
			}
		})
	}
}

// A CA is the same in a file and in the kubeconfig itself, and with a comment before it.
func TestTheCAIsKnownByItsCertificates(t *testing.T) {
	kube := servers.Kube(t)
	text, err := os.ReadFile(kube.Config.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, append([]byte("# the CA of prod\r\n"), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	var ids []change.ClusterIdentity
	for _, tls := range []rest.TLSClientConfig{{CAFile: kube.Config.CAFile}, {CAData: text}, {CAFile: file}} {
		config := rest.CopyConfig(kube.Config)
		config.TLSClientConfig = tls
		client, err := source.NewClient(config)
		if err != nil {
			t.Fatal(err)
		}
		id, err := source.Identify(t.Context(), client, config)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if ids[0] != ids[1] || ids[0] != ids[2] || ids[0].UID == "" || !strings.HasPrefix(ids[0].CA, "ca-sha256:") {
		t.Errorf("one cluster has the identities %v", ids)
	}
}

// identify asks the scripted server.
func identify(t *testing.T, s *script) (change.ClusterIdentity, error) {
	t.Helper()
	client, err := source.NewClient(&rest.Config{Host: "http://script", Transport: s})
	if err != nil {
		t.Fatal(err)
	}
	return source.Identify(t.Context(), client, &rest.Config{})
}

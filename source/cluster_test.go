package source_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source"
	"kubecdc/test/servers"
)

const system = `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"533171e1-5580-4b57-b59d-d26d1b31ef47","resourceVersion":"4"}}`

func TestTheIdentityIsAskedForAsTheServerTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{steps: []step{
			{want: "list", status: 429, after: "7", body: failure(429, "TooManyRequests")},
			{want: "list", status: 503, body: failure(503, "ServiceUnavailable")},
			{want: "list", status: 500, body: failure(500, "InternalError")},
			{want: "list", body: system},
		}}
		id, log, err := identify(t, s)
		s.check(t)
		if err != nil || id.UID != "533171e1-5580-4b57-b59d-d26d1b31ef47" {
			t.Errorf("%v, %v", id, err)
		}
		if s.wait(1) < 7*time.Second || s.wait(2) > 2*time.Second {
			t.Errorf("it waited %s and %s", s.wait(1), s.wait(2))
		}
		if strings.Count(log, "waiting for the API server") != 1 { // the reason is the same each time
			t.Errorf("the log is\n%s", log)
		}
	})
}

func TestWhatTellsNothingOfTheClusterIsAnError(t *testing.T) {
	for _, c := range []struct {
		step step
		says string
	}{
		{step{status: 401, body: failure(401, "Unauthorized")}, "refuses the credentials (401"},
		{step{status: 403, body: failure(403, "Forbidden")}, "grant get on namespace kube-system, or set certificate-authority"},
		{step{status: 404, body: failure(404, "NotFound")}, "grant get on namespace kube-system, or set certificate-authority"},
		{step{status: 403, body: "<html>blocked</html>"}, "is there a proxy between"},
		{step{status: 400, body: failure(400, "BadRequest")}, "answers 400"},
		{step{body: `{"kind":"Namespace"}`}, "lacks name, uid"},
		{step{body: "<html>log in</html>"}, "read namespace kube-system"},
	} {
		synctest.Test(t, func(t *testing.T) {
			if id, _, err := identify(t, &script{steps: []step{c.step}}); err == nil || !strings.Contains(err.Error(), c.says) {
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
		client, err := source.Connect(config)
		if err != nil {
			t.Fatal(err)
		}
		id, err := client.Identify(t.Context(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if ids[0] != ids[1] || ids[0] != ids[2] || ids[0].UID == "" || !strings.HasPrefix(ids[0].CA, "ca-sha256:") {
		t.Errorf("one cluster has the identities %v", ids)
	}
}

// identify asks the scripted server, and gives the log's text as well.
func identify(t *testing.T, s *script) (change.ClusterIdentity, string, error) {
	t.Helper()
	client, err := source.Connect(&rest.Config{Host: "http://script", Transport: s})
	if err != nil {
		t.Fatal(err)
	}
	log := &bytes.Buffer{}
	id, err := client.Identify(t.Context(), slog.New(slog.NewTextHandler(log, nil)))
	return id, log.String(), err
}

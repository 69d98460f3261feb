package discovery_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/discovery"
	"kubecdc/test/require"
	"kubecdc/test/servers"
)

// answers is an API server that gives one answer after another.
type answers struct {
	all  []answer
	seen int // requests
}

type answer struct {
	status      int
	after, body string
}

func (s *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.seen == len(s.all) {
		return nil, errors.New("one request more than answers")
	}
	a := s.all[s.seen]
	s.seen++
	return &http.Response{StatusCode: a.status, Header: http.Header{"Retry-After": {a.after}}, Request: r, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

func failure(code int, reason string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"as told"}`, reason, code)
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		mustDo(t, err)
		return v
	}
}

func TestWhatTellsNothingOfTheClusterIsAnError(t *testing.T) {
	for _, c := range []struct {
		answer answer
		says   string
	}{
		{answer{status: 401, body: failure(401, "Unauthorized")}, "refuses the credentials (401"},
		{answer{status: 403, body: failure(403, "Forbidden")}, "grant get on namespace kube-system, or set certificate-authority"},
		{answer{status: 404, body: failure(404, "NotFound")}, "grant get on namespace kube-system, or set certificate-authority"},
		{answer{status: 403, body: "<html>blocked</html>"}, "a proxy, or whatever else is at"},
		{answer{status: 400, body: failure(400, "BadRequest")}, "answers 400"},
		{answer{status: 200, body: `{"kind":"Namespace"}`}, "lacks name, uid"},
		{answer{status: 200, body: "<html>log in</html>"}, "read namespace kube-system"},
	} {
		synctest.Test(t, func(t *testing.T) {
			if id, err := identify(t, &answers{all: []answer{c.answer}}); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%d %s: %v, %v; want an error that says %q", c.answer.status, c.answer.body, id, err, c.says)
			}
		})
	}
}

// A CA is the same in a file and in the kubeconfig itself, and with a comment before it.
func TestTheCAIsKnownByItsCertificates(t *testing.T) {
	kube := servers.Kube(t)
	text, err := os.ReadFile(kube.Config.CAFile)
	mustDo(t, err)
	file := filepath.Join(t.TempDir(), "ca.crt")
	mustDo(t, os.WriteFile(file, append([]byte("# the CA of prod\r\n"), text...), 0o600))
	var ids []change.ClusterIdentity
	for _, tls := range []rest.TLSClientConfig{{CAFile: kube.Config.CAFile}, {CAData: text}, {CAFile: file}} {
		config := rest.CopyConfig(kube.Config)
		config.TLSClientConfig = tls
		client, err := discovery.Connect(config)
		mustDo(t, err)
		id, err := client.Identify(t.Context())
		mustDo(t, err)
		ids = append(ids, id)
	}
	if ids[0] != ids[1] || ids[0] != ids[2] || ids[0].UID == "" || !strings.HasPrefix(ids[0].CA, "ca-sha256:") {
		t.Errorf("one cluster has the identities %v", ids)
	}
}

// identify asks the server which cluster it is.
func identify(t *testing.T, s *answers) (change.ClusterIdentity, error) {
	t.Helper()
	return must[*discovery.Server](t)(discovery.Connect(&rest.Config{Host: "http://script", Transport: s})).Identify(t.Context())
}

var mustDo = require.NoError

package observe

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"

	"kubecdc/internal/web"
	"kubecdc/status"
	"kubecdc/test/require"
	"kubecdc/test/servers"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("KUBECDC_TEST_SERVE"); dir != "" {
		serveVictim(dir)
	}
	servers.Main(m)
}

// protected starts a server that demands access.
func protected(t *testing.T, o ServerOptions) *Server {
	t.Helper()
	o.Listen, o.Log = "127.0.0.1:0", slog.New(slog.DiscardHandler)
	e := observing(1)
	s, err := Serve(o, e.Metrics, &Status{Exporter: e.Exporter, StaleAfter: time.Minute})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// ask returns the status code and body for a request with a token.
func ask(t *testing.T, url, token string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	must(t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer.StatusCode, string(body)
}

func wantCodes(t *testing.T, s *Server, token string, want map[string]int) {
	t.Helper()
	for path, code := range want {
		if got, body := ask(t, "http://"+s.Addr()+path, token); got != code {
			t.Errorf("%s with token %q: %d, not %d: %s", path, token, got, code, body)
		}
	}
}

var everything = []string{"/", "/status.json", "/metrics"}

func codes(code int) map[string]int {
	all := map[string]int{}
	for _, path := range everything {
		all[path] = code
	}
	return all
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestATokenFileIsRotated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	writeFile(t, file, "first-token-of-some-length\n")
	s := protected(t, ServerOptions{Access: web.FileToken{Path: file}})
	wantCodes(t, s, "", codes(http.StatusUnauthorized))
	wantCodes(t, s, "another-token", codes(http.StatusUnauthorized))
	wantCodes(t, s, "first-token-of-some-length", codes(http.StatusOK))
	writeFile(t, file, "second-token-of-some-length\n")
	wantCodes(t, s, "first-token-of-some-length", codes(http.StatusUnauthorized))
	wantCodes(t, s, "second-token-of-some-length", codes(http.StatusOK))
	writeFile(t, file, "\n")
	wantCodes(t, s, "", codes(http.StatusUnauthorized))
	wantCodes(t, s, "second-token-of-some-length", codes(http.StatusServiceUnavailable))
}

// A client that sends requests and does not read the answers can't hold memory for ever.
func TestWhoDoesNotReadIsDisconnected(t *testing.T) {
	s := protected(t, ServerOptions{Options: web.Options{Within: 200 * time.Millisecond}})
	c, err := net.Dial("tcp", s.Addr())
	must(t, err)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
	for err == nil { // until the answers fill all buffers
		_, err = c.Write([]byte("GET /metrics HTTP/1.1\r\nHost: exporter\r\n\r\n"))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("it is still connected")
	}
}

// A browser can't send a bearer token. It asks for user and password.
func TestABrowserSendsTheTokenAsPassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	writeFile(t, file, "a-token-of-some-length")
	s := protected(t, ServerOptions{Access: web.FileToken{Path: file}})
	for password, want := range map[string]int{"a-token-of-some-length": http.StatusOK, "wrong": http.StatusUnauthorized} {
		r, _ := http.NewRequest(http.MethodGet, "http://"+s.Addr()+"/", nil)
		r.SetBasicAuth("me", password)
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		answer.Body.Close()
		if answer.StatusCode != want || want == http.StatusUnauthorized && !strings.Contains(strings.Join(answer.Header.Values("WWW-Authenticate"), ","), "Basic") {
			t.Errorf("with password %q: %s, %v", password, answer.Status, answer.Header)
		}
	}
}

func TestProbesNeedNoTokenAndLearnNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	writeFile(t, file, "a-token-of-some-length")
	s := protected(t, ServerOptions{Access: web.FileToken{Path: file}})
	if code, body := ask(t, "http://"+s.Addr()+"/healthz", ""); code != http.StatusOK || body != "ok\n" {
		t.Errorf("/healthz: %d %q", code, body)
	}
	for _, token := range []string{"", "wrong"} {
		code, body := ask(t, "http://"+s.Addr()+"/readyz", token)
		if code != http.StatusServiceUnavailable || strings.Join(strings.Fields(body), "") != `{"ready":false}` {
			t.Errorf("/readyz with token %q: %d %s", token, code, body)
		}
	}
	code, body := ask(t, "http://"+s.Addr()+"/readyz", "a-token-of-some-length")
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "slot 0") {
		t.Errorf("/readyz with the token: %d %s", code, body)
	}
}

// The real API server reviews the tokens, and RBAC decides who may get what.
func TestTheAPIServerDecidesWhoHasAccess(t *testing.T) {
	servers.Need(t)
	kube, err := servers.StartKubernetes(t.Context(), servers.KubernetesOptions{Users: []servers.User{
		{Name: "scraper", Token: "token-of-scraper"}, {Name: "nobody", Token: "token-of-nobody"},
		{Name: "exporter", Token: "token-of-exporter"}}})
	must(t, err)
	defer kube.Stop()
	admin := kubernetes.NewForConfigOrDie(kube.Config).RbacV1()
	rules := []rbac.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics", "/kubecdc/readyz"}}}
	_, err = admin.ClusterRoles().Create(t.Context(), &rbac.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "scrape"}, Rules: rules}, metav1.CreateOptions{})
	must(t, err)
	for user, role := range map[string]string{"scraper": "scrape", "exporter": "system:auth-delegator"} {
		_, err := admin.ClusterRoleBindings().Create(t.Context(), &rbac.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user},
			RoleRef:  rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbac.Subject{{APIGroup: rbac.GroupName, Kind: "User", Name: user}}}, metav1.CreateOptions{})
		must(t, err)
	}
	reviews, err := web.NewReviews(kube.UserConfig(kube.Address, "token-of-exporter"))
	must(t, err)
	s := protected(t, ServerOptions{Access: reviews})
	scraper := map[string]int{"/": http.StatusForbidden, "/status.json": http.StatusForbidden, "/metrics": http.StatusOK}
	servers.Await(t, "RBAC to learn of the bindings, by a watch", func() (bool, error) {
		code, _ := ask(t, "http://"+s.Addr()+"/metrics", "token-of-scraper")
		return code == http.StatusOK, nil
	})
	wantCodes(t, s, "token-of-scraper", scraper)
	wantCodes(t, s, "", codes(http.StatusUnauthorized))
	wantCodes(t, s, "no-such-token", codes(http.StatusUnauthorized))
	wantCodes(t, s, "token-of-nobody", codes(http.StatusForbidden))
	for token, details := range map[string]bool{"token-of-scraper": true, "token-of-nobody": false, "no-such-token": false} {
		if _, body := ask(t, "http://"+s.Addr()+"/readyz", token); strings.Contains(body, "slot 0") != details {
			t.Errorf("/readyz with %s: %s", token, body)
		}
	}
}

func TestACertificateIsRotated(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	first := newCertificate(t, certFile, keyFile)
	s := protected(t, ServerOptions{Options: web.Options{TLSCert: certFile, TLSKey: keyFile}})
	trusted := func(authority []byte) error {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(authority)
		client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
		answer, err := client.Get("https://" + s.Addr() + "/status.json")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		var got status.Status
		return json.NewDecoder(answer.Body).Decode(&got)
	}
	must(t, trusted(first))
	second := newCertificate(t, certFile, keyFile)
	if err := trusted(second); err != nil {
		t.Errorf("the new certificate is not served: %v", err)
	}
	if err := trusted(first); err == nil {
		t.Error("the old certificate is still served")
	}
	writeFile(t, keyFile, "half of a rotation")
	if err := trusted(second); err != nil {
		t.Errorf("the last good certificate is not served: %v", err)
	}
}

func newCertificate(t *testing.T, certFile, keyFile string) (authority []byte) {
	t.Helper()
	c, k, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	must(t, err)
	writeFile(t, certFile, string(c))
	writeFile(t, keyFile, string(k))
	return c
}

var must = require.NoError

package observe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/flowcontrol"

	"kubecdc/status"
	"kubecdc/test/servers"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("KUBECDC_TEST_SERVE"); dir != "" {
		serveVictim(dir)
	}
	servers.Main(m)
}

// protected makes a server to which not everyone has access.
func protected(t *testing.T, o ServerOptions) *Server {
	t.Helper()
	o.Listen, o.Log = "127.0.0.1:0", slog.New(slog.DiscardHandler)
	e := observing(1)
	s, err := Serve(o, e.Metrics, &Status{Exporter: e.Exporter, StaleAfter: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// ask returns the status code and body for a request with a token.
func ask(t *testing.T, url, token string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
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
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestATokenFileIsRotated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	writeFile(t, file, "first-token-of-some-length\n")
	s := protected(t, ServerOptions{Access: FileToken{file}})
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

// A client that asks and does not read the answers must not hold memory for ever.
func TestWhoDoesNotReadIsDisconnected(t *testing.T) {
	s := protected(t, ServerOptions{Within: 200 * time.Millisecond})
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
	for err == nil { // until the answers fill all buffers
		_, err = c.Write([]byte("GET /metrics HTTP/1.1\r\nHost: exporter\r\n\r\n"))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("it is still connected")
	}
}

// A browser has no way to send a bearer token: it asks for user and password.
func TestABrowserSendsTheTokenAsPassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	writeFile(t, file, "a-token-of-some-length")
	s := protected(t, ServerOptions{Access: FileToken{file}})
	for password, want := range map[string]int{"a-token-of-some-length": http.StatusOK, "wrong": http.StatusUnauthorized} {
		r, _ := http.NewRequest(http.MethodGet, "http://"+s.Addr()+"/", nil)
		r.SetBasicAuth("me", password)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want || want == http.StatusUnauthorized && !strings.Contains(strings.Join(answer.Header.Values("WWW-Authenticate"), ","), "Basic") {
			t.Errorf("with password %q: %s, %v", password, answer.Status, answer.Header)
		}
	}
}

func TestProbesNeedNoTokenAndLearnNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	writeFile(t, file, "a-token-of-some-length")
	s := protected(t, ServerOptions{Access: FileToken{file}})
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

// The real API server knows the tokens, and RBAC says who may get what.
func TestTheAPIServerDecidesWhoHasAccess(t *testing.T) {
	servers.Need(t)
	kube, err := servers.StartKubernetes(t.Context(), servers.KubernetesOptions{Users: []servers.User{
		{Name: "scraper", Token: "token-of-scraper"}, {Name: "nobody", Token: "token-of-nobody"},
		{Name: "exporter", Token: "token-of-exporter"}, {Name: "powerless", Token: "token-of-powerless"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer kube.Stop()
	admin := kubernetes.NewForConfigOrDie(kube.Config).RbacV1()
	rules := []rbac.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics", "/kubecdc/readyz"}}}
	_, err = admin.ClusterRoles().Create(t.Context(), &rbac.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "scrape"}, Rules: rules}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for user, role := range map[string]string{"scraper": "scrape", "exporter": "system:auth-delegator"} {
		_, err := admin.ClusterRoleBindings().Create(t.Context(), &rbac.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user},
			RoleRef:  rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbac.Subject{{APIGroup: rbac.GroupName, Kind: "User", Name: user}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	reviews, now := reviewsAs(t, kube.UserConfig(kube.Address, "token-of-exporter"))
	s := protected(t, ServerOptions{Access: reviews})
	scraper := map[string]int{"/": http.StatusForbidden, "/status.json": http.StatusForbidden, "/metrics": http.StatusOK}
	servers.Await(t, "RBAC to learn of the bindings, by a watch", func() (bool, error) {
		*now = now.Add(refusedFor)
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

	powerless, _ := reviewsAs(t, kube.UserConfig(kube.Address, "token-of-powerless"))
	wantCodes(t, protected(t, ServerOptions{Access: powerless}), "token-of-scraper", codes(http.StatusServiceUnavailable))

	if err := kube.API.Stop(); err != nil {
		t.Fatal(err)
	}
	wantCodes(t, s, "token-of-scraper", scraper) // the answers are kept for a short time
	*now = now.Add(allowedForOutage - time.Second)
	wantCodes(t, s, "token-of-scraper", map[string]int{"/metrics": http.StatusOK, "/": http.StatusServiceUnavailable})
	*now = now.Add(time.Second)
	wantCodes(t, s, "token-of-scraper", codes(http.StatusServiceUnavailable))
}

// reviewsAs are reviews by a user, with a clock.
func reviewsAs(t *testing.T, config *rest.Config) (*Reviews, *time.Time) {
	t.Helper()
	r, err := NewReviews(config)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	r.now = func() time.Time { return now }
	return r, &now
}

// reviewer is an API server that knows one token, "good", and allows everything to its bearer. It counts TokenReviews.
func reviewer(t *testing.T) (config *rest.Config, good, wrong *atomic.Int32) {
	t.Helper()
	good, wrong = &atomic.Int32{}, &atomic.Int32{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
			io.WriteString(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`)
		case strings.Contains(string(body), `"good"`):
			good.Add(1)
			io.WriteString(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true}}`)
		default:
			wrong.Add(1)
			io.WriteString(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview"}`)
		}
	}))
	t.Cleanup(api.Close)
	return &rest.Config{Host: api.URL}, good, wrong
}

func TestWrongTokensEvictNoGoodOne(t *testing.T) {
	config, good, wrong := reviewer(t)
	config.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	r, now := reviewsAs(t, config)
	if err := r.Allow(t.Context(), "good", "/metrics"); err != nil {
		t.Fatal(err)
	}
	const flood = 2000
	for i := range flood {
		if err := r.Allow(t.Context(), "wrong-"+strconv.Itoa(i), "/metrics"); !errors.Is(err, errUnknownToken) {
			t.Fatal(err)
		}
	}
	*now = now.Add(allowedFor - time.Second)
	if err := r.Allow(t.Context(), "good", "/metrics"); err != nil || good.Load() != 1 || wrong.Load() != flood {
		t.Errorf("%v after %d reviews of the good token and %d of wrong ones", err, good.Load(), wrong.Load())
	}
}

// Reviews have a rate limit. Many requests with wrong tokens must not make the others wait until all of them were reviewed.
func TestAFloodOfTokensKeepsNobodyWaiting(t *testing.T) {
	config, good, wrong := reviewer(t)
	r, now := reviewsAs(t, config)
	if err := r.Allow(t.Context(), "good", "/metrics"); err != nil {
		t.Fatal(err)
	}
	*now = now.Add(allowedForOutage)
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range 700 {
		all.Go(func() { _ = r.Allow(ctx, "wrong-"+strconv.Itoa(i), "/metrics") })
	}
	for wrong.Load() < 100 { // the burst
		time.Sleep(time.Millisecond)
	}
	if err := r.Allow(ctx, "good", "/metrics"); err != nil || good.Load() != 2 {
		t.Errorf("a token that was allowed before: %v", err)
	}
}

func TestACertificateIsRotated(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	first := newCertificate(t, certFile, keyFile)
	s := protected(t, ServerOptions{TLSCert: certFile, TLSKey: keyFile})
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
	if err := trusted(first); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, certFile, string(c))
	writeFile(t, keyFile, string(k))
	return c
}

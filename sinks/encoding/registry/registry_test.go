package registry_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"

	"kubecdc/sinks/encoding/registry"
	"kubecdc/test/require"
	"kubecdc/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

const (
	one = `{"type":"record","name":"R","fields":[{"name":"a","type":["null","string"],"default":null}]}`
	two = `{"type":"record","name":"R","fields":[{"name":"a","type":["null","string"],"default":null},{"name":"b","type":["null","long"],"default":null}]}`
	// bad has a field without a default, so it can't read what others have written.
	bad = `{"type":"record","name":"R","fields":[{"name":"c","type":"string"}]}`
)

// A real registry that demands compatibility keeps versions, and refuses a schema that reads no earlier records.
func TestRegistryOfApicurio(t *testing.T) {
	server := servers.SharedRegistry(t)
	r := newRegistry(t, server.URL)
	ctx, subject := t.Context(), servers.UniqueName()+"-value"
	if _, text, err := r.Latest(ctx, subject); text != "" || err != nil {
		t.Fatalf("a new subject has %q, %v", text, err)
	}
	must(t, r.Check(ctx, subject, one))
	first := register(t, r, subject, one)
	demand(t, server.URL, subject)
	second := register(t, r, subject, two)
	if again := register(t, r, subject, two); again != second || first == second {
		t.Fatalf("ids %d, %d, and %d for the same schema", first, second, again)
	}
	if id, text, err := r.Latest(ctx, subject); id != second || !strings.Contains(text, `"b"`) || err != nil {
		t.Fatalf("the latest schema is %d %s, %v", id, text, err)
	}
	if text, err := r.ByID(ctx, first); text != one || err != nil {
		t.Fatalf("schema %d is %s, %v", first, text, err)
	}
	_, err := r.Register(ctx, subject, bad)
	if !registry.Refused(err) || !strings.Contains(err.Error(), subject) {
		t.Fatalf("an incompatible schema: %v", err)
	}
	if err := r.Check(ctx, subject, bad); !registry.Refused(err) {
		t.Fatalf("check of an incompatible schema: %v", err)
	}
	if _, err := r.ByID(ctx, 1<<30); err == nil || !strings.Contains(err.Error(), "schema 1073741824") {
		t.Fatalf("an unknown id: %v", err)
	}
}

func newRegistry(t *testing.T, url string) *registry.Registry {
	t.Helper()
	r, err := registry.New(registry.Options{URLs: []string{url}})
	must(t, err)
	return r
}

func register(t *testing.T, r *registry.Registry, subject, text string) int {
	t.Helper()
	id, err := r.Register(t.Context(), subject, text)
	must(t, err)
	return id
}

// demand makes the registry check all later versions in both directions.
func demand(t *testing.T, url, subject string) {
	t.Helper()
	client, err := sr.NewClient(sr.URLs(url))
	must(t, err)
	for _, result := range client.SetCompatibility(t.Context(), sr.SetCompatibility{Level: sr.CompatFullTransitive}, subject) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
	}
}

// Errors name the subject, and what to do. The password file is read for each request.
func TestErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(file, []byte("old\n"), 0o600))
	status, login := 0, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		login = r.Header.Get("Authorization")
		w.WriteHeader(status)
	}))
	r, err := registry.New(registry.Options{URLs: []string{server.URL}, Username: "u", PasswordFile: file})
	must(t, err)
	for answer, want := range map[int]string{409: "only grow", 422: "only grow", 401: "KUBECDC_SCHEMA_REGISTRY_USERNAME", 403: "grant",
		404: "ccompat", 500: "log", 503: "log"} {
		status = answer
		_, err := r.Register(t.Context(), "kubecdc.pods-value", one)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "kubecdc.pods-value") ||
			registry.Refused(err) != (answer == 409 || answer == 422) {
			t.Errorf("%d: %v, want %q", answer, err, want)
		}
	}
	must(t, os.WriteFile(file, []byte("new\n"), 0o600))
	_, _ = r.ByID(t.Context(), 1)
	if want := "Basic " + base64.StdEncoding.EncodeToString([]byte("u:new")); login != want {
		t.Errorf("login %q, want %q", login, want)
	}
	server.Close()
	if _, _, err := r.Latest(t.Context(), "s"); err == nil || !strings.Contains(err.Error(), "check that the registry runs") {
		t.Errorf("a registry that is down: %v", err)
	}
}

// No error shows a key in the registry's URL, whether the registry answers or not.
func TestAKeyInTheURLIsNotShown(t *testing.T) {
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("apikey") != "s3cr3t/+" {
			t.Errorf("the key was not sent: %s", r.URL)
		}
		http.Error(w, `{"error_code":50001,"message":"no"}`, http.StatusInternalServerError)
	}))
	silent := httptest.NewServer(nil)
	silent.Close()
	for _, url := range []string{answers.URL, silent.URL} {
		r, err := registry.New(registry.Options{URLs: []string{strings.Replace(url, "://", "://me:s3cr3t@", 1) + "/path?apikey=s3cr3t%2F%2B"}})
		must(t, err)
		_, _, err = r.Latest(t.Context(), "a")
		if err == nil || strings.Contains(err.Error(), "s3cr3t") || !strings.Contains(err.Error(), strings.TrimPrefix(url, "http://")) {
			t.Errorf("error %v", err)
		}
	}
}

var must = require.NoError

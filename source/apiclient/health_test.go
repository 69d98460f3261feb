package apiclient

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// Whether an API server has several etcds is in the names of its health checks, whether they fail or not.
func TestEtcdOverrides(t *testing.T) {
	for name, c := range map[string]struct {
		minor, checks string
		status, want  int
	}{
		"one etcd":                 {"36", "[+]ping ok\n[+]etcd ok\n[+]etcd-readiness ok\n[+]informer-sync ok\n", 200, 0},
		"another one for events":   {"34+", "[+]ping ok\n[+]etcd ok\n[+]etcd-override-0 ok\n[+]etcd-override-readiness-0 ok\n", 200, 1},
		"two others, one is away":  {"36", "[+]etcd ok\n[-]etcd-override-0 failed: reason withheld\n[+]etcd-override-1 ok\n", 500, 2},
		"an old server":            {"33", "[+]ping ok\n[+]etcd ok\n", 200, -1},
		"its etcd is not shown":    {"36", "[+]ping ok\n", 200, -1},
		"something else than that": {"36", `{"kind":"List"}`, 200, -1},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/version" {
					fmt.Fprintf(w, `{"major":"1","minor":%q}`, c.minor)
					return
				}
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.checks)
			}))
			defer s.Close()
			client, err := New(&rest.Config{Host: s.URL})
			must(t, err)
			if got, err := client.EtcdOverrides(t.Context()); err != nil || got != c.want {
				t.Errorf("%d %v, want %d", got, err, c.want)
			}
		})
	}
}

package serve

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kubecdc/test/servers"
)

// Whatever an answer may lack, its head is below 3 KB, and none of its warnings is longer than 256 runes. Those are there that name what was asked for.
func TestWarningsFitThroughProxies(t *testing.T) {
	q := everything()
	q.namespace, q.name = "shop", "web"
	long := strings.Repeat("é", 2000)
	for _, text := range []string{"short", long, strings.Repeat("\x01", 300), strings.Repeat("\xff", 300), strings.Repeat(`"`, 300), strings.Repeat("𝕏", 200)} {
		for _, n := range []int{1, 2, 9, 10, 30, 101, 5000} {
			var missing []string
			for i := range n {
				missing = append(missing, fmt.Sprintf("pods other/p%d: it was deleted at an unknown resourceVersion: %s", i, text))
			}
			missing = append(missing, "pods shop/other: "+text, "pods@shop: "+text, "pods shop/web: "+text)
			var head []byte
			var sent []string
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				warn(w, q, missing)
				_ = write(w, media{}, http.StatusOK, []byte("{}"))
			}))
			c := must[net.Conn](t)(net.Dial("tcp", web.Listener.Addr().String()))
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			answer := must[[]byte](t)(io.ReadAll(c))
			c.Close()
			web.Close()
			head, _, _ = bytes.Cut(answer, []byte("\r\n\r\n"))
			for line := range strings.Lines(string(head)) {
				if warning, isWarning := strings.CutPrefix(line, "Warning: "); isWarning {
					sent = append(sent, warning)
				}
			}
			first := fmt.Sprint(sent[0], sent[min(1, len(sent)-1)], sent[min(2, len(sent)-1)])
			if len(head) >= 3<<10 || !strings.Contains(sent[0], "pods shop/web:") || len(sent) > 3 && (!strings.Contains(first, "shop/other") || !strings.Contains(first, "@shop")) {
				t.Errorf("%d reasons of %.20q: a head of %d bytes, %d warnings: %.300s", n+3, text, len(head), len(sent), first)
			}
			if dropped := n + 3 - len(sent); dropped > 0 && !strings.Contains(sent[len(sent)-1], fmt.Sprintf("%d more reasons", dropped+1)) {
				t.Errorf("%d reasons, of which %d are there: %s", n+3, len(sent), sent[len(sent)-1])
			}
		}
	}
}

// proxies have their defaults. %[1]s is a folder, %[2]s a port and %[3]s the server's port.
var proxies = map[string]struct {
	config string
	args   []string
}{
	"KUBECDC_TEST_NGINX": {"daemon off; pid %[1]s/pid; error_log %[1]s/error.log; events {}\nhttp { access_log off; client_body_temp_path %[1]s/b;" +
		" proxy_temp_path %[1]s/p; server { listen 127.0.0.1:%[2]s; location / { proxy_pass http://127.0.0.1:%[3]s; } } }\n", []string{"-p", "."}},
	"KUBECDC_TEST_ENVOY": {`# %[1]s
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: %[2]s}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: log
          http_filters: [{name: router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]
          route_config: {virtual_hosts: [{name: log, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: log}}]}]}
  clusters:
  - name: log
    load_assignment:
      cluster_name: log
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %[3]s}}}}]}]
`, []string{"--use-dynamic-base-id", "--log-level", "error"}},
}

// nginx, Envoy and Python pass on all warnings with their defaults. Settings name the programs.
func TestProxiesPassWarnings(t *testing.T) {
	q := everything()
	q.namespace, q.name = "shop", "web"
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var missing []string
		for i := range 500 {
			missing = append(missing, fmt.Sprintf("pods shop/p%d: %s", i, strings.Repeat("é", 300)))
		}
		warn(w, q, missing)
		_ = write(w, media{}, http.StatusOK, []byte("{}"))
	}))
	t.Cleanup(web.Close)
	direct := must[*http.Response](t)(http.Get(web.URL + "/api"))
	direct.Body.Close()
	want := len(direct.Header.Values("Warning"))
	for setting, proxy := range proxies {
		t.Run(setting, func(t *testing.T) {
			program := os.Getenv(setting)
			if program == "" {
				t.Skip(setting + " does not name the program: make clients")
			}
			folder, listener := t.TempDir(), must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
			address := listener.Addr().(*net.TCPAddr)
			listener.Close()
			file := filepath.Join(folder, "proxy.yaml")
			ok(t, os.WriteFile(file, fmt.Appendf(nil, proxy.config, folder, strconv.Itoa(address.Port), must[*url.URL](t)(url.Parse(web.URL)).Port()), 0o600))
			process := exec.CommandContext(t.Context(), program, append([]string{"-c", file}, proxy.args...)...)
			process.Dir, process.Stderr = folder, os.Stderr
			ok(t, process.Start())
			t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
			var through *http.Response
			servers.Await(t, "the proxy to answer", func() (answers bool, err error) {
				through, err = http.Get("http://" + address.String() + "/api")
				return err == nil, nil
			})
			through.Body.Close()
			if got := through.Header.Values("Warning"); through.StatusCode != http.StatusOK || len(got) != want || want < 5 {
				t.Errorf("it answers %s with %d warnings of %d", through.Status, len(got), want)
			}
			script := `import sys, urllib.request; print(len(urllib.request.urlopen(sys.argv[1]).headers.get_all("Warning")))`
			for _, url := range []string{web.URL, "http://" + address.String()} {
				out, err := exec.CommandContext(t.Context(), "python3", "-c", script, url).CombinedOutput()
				if err != nil || strings.TrimSpace(string(out)) != fmt.Sprint(want) {
					t.Errorf("Python reads of %s: %s (%v), want %d", url, out, err, want)
				}
			}
		})
	}
}

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

// nginx and Python pass on all warnings with their defaults. KUBECDC_TEST_NGINX names nginx.
func TestProxiesPassWarnings(t *testing.T) {
	nginx := os.Getenv("KUBECDC_TEST_NGINX")
	if nginx == "" {
		t.Skip("KUBECDC_TEST_NGINX does not name nginx: make clients")
	}
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
	folder, listener := t.TempDir(), must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	address := listener.Addr().String()
	listener.Close()
	file := filepath.Join(folder, "nginx.conf")
	ok(t, os.WriteFile(file, fmt.Appendf(nil, "daemon off; pid %[1]s/pid; error_log %[1]s/error.log; events {}\nhttp { access_log off; client_body_temp_path %[1]s/b;"+
		" proxy_temp_path %[1]s/p; server { listen %[2]s; location / { proxy_pass %[3]s; } } }\n", folder, address, web.URL), 0o600))
	process := exec.CommandContext(t.Context(), nginx, "-c", file, "-p", folder)
	ok(t, process.Start())
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	var through *http.Response
	servers.Await(t, "nginx to answer", func() (answers bool, err error) {
		through, err = http.Get("http://" + address + "/api")
		return err == nil, nil
	})
	through.Body.Close()
	direct := must[*http.Response](t)(http.Get(web.URL + "/api"))
	direct.Body.Close()
	want := direct.Header.Values("Warning")
	if got := through.Header.Values("Warning"); through.StatusCode != http.StatusOK || len(got) != len(want) || len(want) < 5 {
		t.Errorf("nginx answers %s with %d warnings of %d", through.Status, len(got), len(want))
	}
	script := `import sys, urllib.request; print(len(urllib.request.urlopen(sys.argv[1]).headers.get_all("Warning")))`
	for _, address := range []url.URL{*must[*url.URL](t)(url.Parse(web.URL)), {Scheme: "http", Host: address}} {
		out, err := exec.CommandContext(t.Context(), "python3", "-c", script, address.String()).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != fmt.Sprint(len(want)) {
			t.Errorf("Python reads of %s: %s (%v), want %d", address.Host, out, err, len(want))
		}
	}
}

package observe

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"kubecdc/audit"
	"kubecdc/internal/web"
	"kubecdc/test/attack"
	"kubecdc/test/servers"
)

// attacks are what a client without a token sends before it goes silent.
var attacks = map[string]string{
	"nothing":                      "",
	"half a request":               "GET /metrics HTTP/1.1\r\nHost: exporter\r\n",
	"headers of 60 KB":             "GET /metrics HTTP/1.1\r\nHost: exporter\r\n" + strings.Repeat("X-Filler: "+strings.Repeat("x", 1000)+"\r\n", 60),
	"a body that never comes":      "POST /metrics HTTP/1.1\r\nHost: exporter\r\nContent-Length: 250000\r\n\r\n",
	"audit events that never come": "POST /audit HTTP/1.1\r\nHost: exporter\r\nContent-Length: 250000000\r\n\r\n",
	"a body in chunks":             "GET / HTTP/1.1\r\nHost: exporter\r\nTransfer-Encoding: chunked\r\n\r\n",
	"a body after a 100":           "GET /readyz HTTP/1.1\r\nHost: exporter\r\nExpect: 100-continue\r\nContent-Length: 250000\r\n\r\n",
	"a request that gets a 401":    "GET /status.json HTTP/1.1\r\nHost: exporter\r\n\r\n",
	"a request that gets a page":   "GET /healthz HTTP/1.1\r\nHost: exporter\r\n\r\n",
	"a second half after a second": "GET /metrics HTTP/1.1\r\nHost: exporter\r\n\r\nGET /metrics HTTP/1.1\r\nHost",
}

// A client that can reach the port opens as many connections as possible, and sends the most expensive requests. The process
// remains small, a scraper is answered, and all these connections are closed.
func TestSlowTheListenerUnderAttack(t *testing.T) {
	servers.Slow(t)
	dir := t.TempDir()
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	must(t, err)
	writeFile(t, filepath.Join(dir, "tls.crt"), string(certPEM))
	writeFile(t, filepath.Join(dir, "tls.key"), string(keyPEM))
	writeFile(t, filepath.Join(dir, "token"), "a-token-of-some-length")
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			v := startVictim(t, dir, scheme)
			v.Attack(t, attacks)
		})
	}
}

func startVictim(t *testing.T, dir, scheme string) *attack.Victim {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^$")
	c.Env = append(os.Environ(), "KUBECDC_TEST_SERVE="+dir, "KUBECDC_TEST_SCHEME="+scheme, "GOGC=30")
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	return &attack.Victim{Process: c.Process, Scheme: scheme, Address: strings.TrimSpace(line), Path: "/metrics", Token: "a-token-of-some-length",
		Want: "go_goroutines", Most: 100e6}
}

// serveVictim is the process under attack.
func serveVictim(dir string) {
	o := ServerOptions{Access: web.FileToken{Path: filepath.Join(dir, "token")}}
	o.Listen, o.Log = "127.0.0.1:0", slog.New(slog.DiscardHandler)
	o.Audit, o.AuditAccess = audit.NewWebhook(audit.NewIntake(audit.Parser{}, nil), o.Log), o.Access
	if os.Getenv("KUBECDC_TEST_SCHEME") == "https" {
		o.TLSCert, o.TLSKey = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	}
	e := observing(1)
	s, err := Serve(o, e.Metrics, &Status{Exporter: e.Exporter, StaleAfter: time.Minute})
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Addr())
	select {}
}

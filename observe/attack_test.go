package observe

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"kubecdc/audit"
	"kubecdc/test/servers"
)

// attacks are what a client sends that has no token, and then nothing more.
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

// Somebody who only reaches the port opens as many connections as possible and sends what costs most. The process stays small,
// a scraper is answered, and no such connection stays open.
func TestSlowTheListenerUnderAttack(t *testing.T) {
	servers.Slow(t)
	dir := t.TempDir()
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "tls.crt"), string(certPEM))
	writeFile(t, filepath.Join(dir, "tls.key"), string(keyPEM))
	writeFile(t, filepath.Join(dir, "token"), "a-token-of-some-length")
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			v := startVictim(t, dir, scheme)
			var opened atomic.Int64
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for _, sent := range attacks {
				wg.Go(func() { v.attack(sent, &opened, stop) })
			}
			var took []time.Duration
			for len(took) < 5 || opened.Load() < 3000 {
				took = append(took, v.scrape(t))
			}
			close(stop)
			wg.Wait()
			slices.Sort(took)
			peak := v.peak(t)
			t.Logf("%d connections; peak RSS %.1f MB; %d scrapes, the slowest in %s, half of them in %s", opened.Load(), float64(peak)/1e6,
				len(took), took[len(took)-1], took[len(took)/2])
			if peak > 100e6 {
				t.Error("that is more than 100 MB")
			}
			for name, sent := range attacks {
				if !strings.Contains(name, "gets") { // an idle connection may stay for two minutes
					v.wantClosed(t, name, sent)
				}
			}
		})
	}
}

// victim is a server in a process of its own.
type victim struct {
	process *os.Process
	scheme  string
	address string
	client  *http.Client
}

func startVictim(t *testing.T, dir, scheme string) *victim {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^$")
	c.Env = append(os.Environ(), "KUBECDC_TEST_SERVE="+dir, "KUBECDC_TEST_SCHEME="+scheme, "GOGC=40")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	return &victim{c.Process, scheme, strings.TrimSpace(line), &http.Client{Transport: transport, Timeout: 30 * time.Second}}
}

// serveVictim is what the process does.
func serveVictim(dir string) {
	o := ServerOptions{Listen: "127.0.0.1:0", Access: FileToken{filepath.Join(dir, "token")}, Log: slog.New(slog.DiscardHandler)}
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

func (v *victim) dial() (net.Conn, error) {
	if v.scheme == "https" {
		return tls.Dial("tcp", v.address, &tls.Config{InsecureSkipVerify: true})
	}
	return net.Dial("tcp", v.address)
}

// attack opens connections, of which it keeps up to 300.
func (v *victim) attack(sent string, opened *atomic.Int64, stop chan struct{}) {
	var kept []net.Conn
	defer func() {
		for _, c := range kept {
			c.Close()
		}
	}()
	for {
		select {
		case <-stop:
			return
		default:
		}
		if len(kept) == 300 {
			kept[0].Close()
			kept = kept[1:]
		}
		c, err := v.dial()
		if err != nil {
			continue
		}
		opened.Add(1)
		_, _ = io.WriteString(c, sent)
		kept = append(kept, c)
	}
}

// scrape is what Prometheus does, on a new connection.
func (v *victim) scrape(t *testing.T) time.Duration {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, v.scheme+"://"+v.address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer a-token-of-some-length")
	for began, clock := time.Now(), servers.StartClock(); ; {
		answer, err := v.client.Do(r)
		if err != nil { // it was the oldest of too many: who comes first is for the scheduler to say
			if clock.Late() {
				t.Fatalf("no scrape: %v", err)
			}
			continue
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err == nil && (answer.StatusCode != http.StatusOK || !strings.Contains(string(body), "go_goroutines")) {
			t.Fatalf("%s: %.200s", answer.Status, body)
		}
		if err == nil {
			return time.Since(began)
		}
	}
}

// peak is the most memory that the process had resident, in bytes.
func (v *victim) peak(t *testing.T) (bytes int64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscanf(after, "%d kB", &bytes); err != nil {
		t.Fatal(err)
	}
	return bytes << 10
}

// wantClosed demands that the server ends a connection on which nothing more comes.
func (v *victim) wantClosed(t *testing.T, name, sent string) {
	t.Helper()
	c, err := v.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
	_, _ = io.WriteString(c, sent)
	if _, err := io.Copy(io.Discard, c); err != nil && os.IsTimeout(err) {
		t.Errorf("%s: the connection is still open after minutes", name)
	}
}

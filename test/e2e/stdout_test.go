package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// With a kubeconfig and a pipe the changes come out as lines of JSON. SIGTERM ends the exporter with 0. The next start goes on from
// that point without another snapshot.
func TestWithOnlyAKubeconfigThePipeHasEveryChange(t *testing.T) {
	t.Parallel()
	k := servers.Lend(t)
	state := t.TempDir()
	env := map[string]string{"KUBECONFIG": k.Kubeconfig, "XDG_STATE_HOME": state, "KUBECDC_RESOURCES": "*,secrets", "KUBECDC_SECRETS": "plain",
		"KUBECDC_SINK": "stdout"}
	kinds := []Kind{ConfigMaps, Secrets, Deployments, Roles}
	writer := NewWriter(t, k.Config, rand.Uint64(), kinds).Fill(5)
	log := &Log{}

	e := StartExporter(t, "the first", env).AwaitReady(t)
	writer.Run(150)
	log.Records = append(log.Records, endPipe(t, e, writer, kinds)...)
	parsed, _ := ParseLines(t, e.out.Bytes(), "pipe")
	log.Controls = parsed.Controls // the ends of the snapshots, with which the judge begins
	if files, _ := filepath.Glob(filepath.Join(state, "kubecdc", "*.db")); len(files) != 1 {
		t.Errorf("the checkpoints are %v, want one file in XDG_STATE_HOME", files)
	}
	writer.Run(100)
	e = StartExporter(t, "the second", env).AwaitReady(t)
	writer.Run(50)
	second := endPipe(t, e, writer, kinds)
	for _, r := range second {
		if r.Op == "r" {
			t.Fatalf("the second start reads %s %s in a snapshot", r.Topic, r.Key)
		}
	}
	log.Records = append(log.Records, second...)
	Judge(t, k, log, "pipe", kinds).Demand(t, 0)
}

// endPipe waits until all changes came out, sends SIGTERM, and returns all records.
func endPipe(t *testing.T, e *Exporter, writer *Writer, kinds []Kind) []Record {
	t.Helper()
	want := map[change.ResourceVersion]bool{}
	for _, kind := range kinds {
		want[writer.mark(kind)] = true
	}
	Await(t, "the last changes to come out of the pipe", func() (bool, error) {
		log, _ := ParseLines(t, e.out.Bytes(), "pipe")
		left := len(want)
		for _, r := range log.Records {
			if want[r.Version] {
				left--
			}
		}
		return left == 0, nil
	})
	e.stop(t)
	log, _ := ParseLines(t, e.out.Bytes(), "pipe")
	return log.Records
}

// Objects of the API server that can't be parsed come out unchanged, and the stream goes on.
func TestMalformedObjectsComeOutAsTheyCame(t *testing.T) {
	t.Parallel()
	k := servers.Lend(t)
	const bad = `{"metadata":{"name":["no text"],"uid":5}}`
	gateway := newGateway(t, k, `{"type":"MODIFIED","object":`+bad+"}\n")
	writer := NewWriter(t, k.Config, rand.Uint64(), []Kind{ConfigMaps}).Fill(3)
	e := StartExporter(t, "behind a bad API server", map[string]string{"KUBECONFIG": gateway.kubeconfig, "XDG_STATE_HOME": t.TempDir(),
		"KUBECDC_RESOURCES": "configmaps", "KUBECDC_CLUSTER": "bad", "KUBECDC_SINK": "stdout"}).AwaitReady(t)
	writer.Run(20)
	records := endPipe(t, e, writer, []Kind{ConfigMaps})
	_, malformed := ParseLines(t, e.out.Bytes(), "pipe")
	if gateway.sent.Load() == 0 || len(malformed) != int(gateway.sent.Load()) {
		t.Fatalf("%d lines tell of %d malformed objects", len(malformed), gateway.sent.Load())
	}
	m := malformed[0]
	if m.Type != "malformed" || m.Stream != "configmaps" || m.Reason == "" || !strings.Contains(m.Text, bad) {
		t.Errorf("the line says %+v", m)
	}
	if len(records) < 20 {
		t.Errorf("%d changes came, want 20 or more", len(records))
	}
}

// gateway is a proxy before an API server that puts a line before each watch of a resource.
type gateway struct {
	kubeconfig string
	sent       atomic.Int64
}

// unpacking lets the transport ask for compressed answers and unpack them: since 1.37 streamed lists are compressed too.
type unpacking struct{ http.RoundTripper }

func (u unpacking) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Del("Accept-Encoding")
	return u.RoundTripper.RoundTrip(r)
}

func newGateway(t *testing.T, k *servers.Kubernetes, line string) *gateway {
	return newGatewayOf(t, k, "configmaps", line)
}

func newGatewayOf(t *testing.T, k *servers.Kubernetes, resource, line string) *gateway {
	t.Helper()
	transport, err := rest.TransportFor(k.Config)
	must(t, err)
	g := &gateway{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	target, err := url.Parse("https://" + k.Address)
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport, proxy.FlushInterval = unpacking{transport}, -1
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.URL.Query().Has("watch") && strings.HasSuffix(r.Request.URL.Path, "/"+resource) && r.StatusCode == http.StatusOK {
			g.sent.Add(1)
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(strings.NewReader(line), r.Body), r.Body}
		}
		return nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"g","contexts":[{"name":"g","context":{"cluster":"g","user":"g"}}],
		"users":[{"name":"g","user":{}}],"clusters":[{"name":"g","cluster":{"server":"http://%s"}}]}`, listener.Addr())
	must(t, os.WriteFile(g.kubeconfig, []byte(config), 0o600))
	return g
}

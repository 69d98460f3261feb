package serve

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/postgres"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/exporter"
	"kubecdc/test/servers"
)

// besieged is a server in a process of its own, whose log is of large objects, and of small ones in another namespace.
type besieged struct {
	t       *testing.T
	process *os.Process
	address *url.URL
	log     sinks.Log
	next    change.Batch
	version int
}

const (
	besiegedLarge = 400 // Pods of 100 KB
	besiegedHuge  = 12  // Pods of 1 MB
	besiegedSmall = 300
)

// reviewsOf is an API server that knows every token that begins with a name and a dot, and allows everything to its bearer.
func reviewsOf(t *testing.T) (kubeconfig string) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, _ := io.ReadAll(r.Body)
		_, after, _ := strings.Cut(string(body), `"token":"`)
		name, _, known := strings.Cut(strings.Split(after, `"`)[0], ".")
		switch {
		case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
			_, _ = io.WriteString(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`)
		case known:
			_, _ = fmt.Fprintf(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true,"user":{"username":%q}}}`, name)
		default:
			_, _ = io.WriteString(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview"}`)
		}
	}))
	t.Cleanup(api.Close)
	c := clientcmdapi.NewConfig()
	c.Clusters["c"], c.Contexts["c"], c.CurrentContext = &clientcmdapi.Cluster{Server: api.URL}, &clientcmdapi.Context{Cluster: "c"}, "c"
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	ok(t, clientcmd.WriteToFile(*c, kubeconfig))
	return kubeconfig
}

// besiege begins a siege of a log in Postgres, or of a file if url is "".
func besiege(t *testing.T, url string) *besieged {
	p := &past{t: t, binary: filepath.Join(t.TempDir(), "exporter"), file: filepath.Join(t.TempDir(), "log.db")}
	ok(t, exporter.Build(t.Context(), p.binary))
	settings, _ := certificate(t)
	settings = append(settings, "KUBECDC_HTTP_ACCESS=kubernetes", "KUBECONFIG="+reviewsOf(t))
	var sink sinks.Sink
	if url == "" {
		file := must[*sqlitefile.File](t)(sqlitefile.Own(t.Context(), p.file))
		sink = must[*sqlite.Sink](t)(sqlite.New(t.Context(), file, sqlite.Config{Cluster: cluster, ClusterUID: "u", BodyCacheBytes: 1 << 20}))
	} else {
		sink = must[*postgres.Sink](t)(postgres.Open(t.Context(), postgres.Config{URL: url, Cluster: cluster, ClusterUID: "u"}))
		settings = append(settings, "KUBECDC_SINK=postgres", "KUBECDC_SINK_POSTGRES="+url)
	}
	b := &besieged{t: t, log: opened(t, sink), next: change.Batch{Epoch: 1, Controls: []change.Control{change.SnapshotBeginControl(pods.ID(), "")}}}
	for i := range besiegedLarge {
		b.add("large", fmt.Sprintf("l%04d", i), 50_000)
	}
	for i := range besiegedHuge {
		b.add("huge", fmt.Sprint("h", i), 500_000)
	}
	for i := range besiegedSmall {
		b.add("small", fmt.Sprintf("s%04d", i), 200)
	}
	b.flush()
	b.process, b.address = p.serving(t, settings...)
	return b
}

// add creates a Pod, whose body can't be compressed.
func (b *besieged) add(namespace, name string, size int) {
	b.version++
	more := make([]byte, size)
	_, _ = rand.Read(more)
	b.next.Changes = append(b.next.Changes, change.Change{Stream: pods, Op: change.Create, Namespace: namespace, Name: name, UID: name,
		ResourceVersion: change.VersionOf(uint64(b.version)), Time: time.Now(), After: fmt.Appendf(nil,
			`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"resourceVersion":"%d","annotations":{"more":%q}}}`, name, namespace, b.version, hex.EncodeToString(more))})
	if len(b.next.Changes) == 50 {
		b.flush()
	}
}

func (b *besieged) flush() {
	b.next.Seq++
	b.next.Positions = []change.Position{{Stream: pods.ID(), ResourceVersion: change.VersionOf(uint64(b.version)), Time: time.Now()}}
	_, err := b.log.Write(context.Background(), &b.next)
	ok(b.t, err)
	b.next.Changes, b.next.Controls = nil, nil
}

// client speaks HTTP/2, as client-go does.
func (b *besieged) client(from string) *http.Client {
	dial := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DialContext: dial.DialContext}}
}

func (b *besieged) request(ctx context.Context, path, token string) *http.Request {
	r := must[*http.Request](b.t)(http.NewRequestWithContext(ctx, http.MethodGet, b.address.String()+path, nil))
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// silent opens a connection, and asks without reading.
func (b *besieged) silent(path, token string) net.Conn {
	c, err := net.Dial("tcp", b.address.Host)
	if err != nil {
		return nil
	}
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	secure := tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	_ = secure.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = fmt.Fprintf(secure, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path, token)
	return secure
}

// siege is a hostile load. Each of its clients acts again and again until the context ends, and counts what it does.
type siege struct {
	clients int
	act     func(ctx context.Context, b *besieged, client, n int)
}

const initial = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

// held opens what nobody reads, and holds it for some seconds.
func held(paths ...string) siege {
	return siege{40, func(ctx context.Context, b *besieged, client, n int) {
		if c := b.silent(paths[(client+n)%len(paths)], "hostile."+strconv.Itoa(client)); c != nil {
			defer c.Close()
			select {
			case <-ctx.Done():
			case <-time.After(3 * time.Second):
			}
		}
	}}
}

// read reads answers.
func read(clients int, path func(client, n int) string) siege { return readAs(clients, "*/*", path) }

func readAs(clients int, accept string, path func(client, n int) string) siege {
	return siege{clients, func(ctx context.Context, b *besieged, client, n int) {
		r := b.request(ctx, path(client, n), "hostile.x")
		r.Header.Set("Accept", accept)
		if answer, err := b.client("127.0.0.1").Do(r); err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
	}}
}

var sieges = map[string]siege{
	"lists that nobody reads":        held("/api/v1/pods"),
	"pages that nobody reads":        held("/api/v1/pods?limit=1000", "/api/v1/namespaces/huge/pods?limit=1000"),
	"objects that nobody reads":      held("/api/v1/namespaces/huge/pods/h1", "/api/v1/namespaces/huge/pods/h2"),
	"first events that nobody reads": held("/api/v1/pods?" + initial),
	"all events that nobody reads":   held("/api/v1/namespaces/huge/pods?watch=1&resourceVersion=1"),
	"lists of one user":              read(24, func(int, int) string { return "/api/v1/namespaces/large/pods" }),
	"tables of one user":             readAs(24, asTable, func(int, int) string { return "/api/v1/pods?limit=1000" }),
	"pages of one user":              readAs(24, "text/html", func(int, int) string { return "/?at=now&type=pods" }),
	"histories of one user":          readAs(24, "text/html", func(int, int) string { return "/?since=start&type=pods" }),
	"rights of one user":             read(100, func(client, n int) string { return fmt.Sprintf("/api/v1/namespaces/n-%d-%d/pods", client, n) }),
	"moments": read(24, func(client, n int) string {
		return fmt.Sprintf("/at/%d/api/v1/namespaces/small/pods/s0000", 1+(client*97+n*13)%(besiegedLarge+besiegedHuge+besiegedSmall))
	}),
	"requests of one connection that nobody reads": {3, func(ctx context.Context, b *besieged, client, n int) {
		own, all := b.client("127.0.0.1"), sync.WaitGroup{}
		defer own.CloseIdleConnections()
		short, leave := context.WithTimeout(ctx, 3*time.Second)
		defer leave()
		for i := range 200 {
			path := []string{"/api/v1/pods?limit=1000", "/api/v1/namespaces/huge/pods/h1", "/api/v1/pods?" + initial}[i%3]
			all.Go(func() {
				if answer, err := own.Do(b.request(short, path, "hostile.x")); err == nil {
					<-short.Done()
					answer.Body.Close()
				}
			})
		}
		all.Wait()
	}},
	"silent connections": {30, func(ctx context.Context, b *besieged, client, n int) {
		for range 30 {
			if c, err := net.Dial("tcp", b.address.Host); err == nil {
				defer c.Close()
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}},
	"invented tokens": {30, func(ctx context.Context, b *besieged, client, n int) {
		var all []net.Conn
		for i := range 30 { // 900 at once
			all = append(all, b.silent("/api/v1/pods", fmt.Sprintf("invented-%d-%d-%d", client, n, i)))
		}
		defer func() {
			for _, c := range all {
				if c != nil {
					c.Close()
				}
			}
		}()
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}},
	"watches": {3, func(ctx context.Context, b *besieged, client, n int) { // as three factories of informers
		own, watches := b.client("127.0.0.1"), sync.WaitGroup{}
		defer own.CloseIdleConnections()
		for i := range 180 {
			watches.Go(func() {
				if answer, err := own.Do(b.request(ctx, fmt.Sprintf("/api/v1/namespaces/small/pods?watch=1&timeoutSeconds=10&resourceVersion=%d", besiegedLarge+i), "hostile.x")); err == nil {
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
			})
		}
		watches.Wait()
	}},
}

// Under each hostile load an honest user is answered, its watch goes on, and the process remains small.
func TestSlowHostileLoads(t *testing.T) {
	servers.Slow(t)
	for log, url := range map[string]string{"file": "", "postgres": servers.Database(t)} {
		t.Run(log, func(t *testing.T) {
			b := besiege(t, url)
			for _, name := range slices.Sorted(maps.Keys(sieges)) {
				t.Run(name, func(t *testing.T) { b.under(t, sieges[name]) })
			}
		})
	}
}

func (b *besieged) under(t *testing.T, s siege) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", b.process.Pid), []byte("5"), 0) // or the peak of the load before remains
	honest := b.client("127.0.0.2")
	watch := must[*http.Response](t)(honest.Do(b.request(t.Context(), fmt.Sprintf("/api/v1/namespaces/small/pods?watch=1&resourceVersion=%d", b.version), "honest.a")))
	defer watch.Body.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var acts atomic.Int64
	var all sync.WaitGroup
	defer all.Wait()
	for client := range s.clients {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				s.act(ctx, b, client, n)
				acts.Add(1)
			}
		})
	}
	begins := time.Now().Add(2 * time.Second) // so that the load has all that it can get
	servers.Await(t, "the load", func() (bool, error) { return time.Now().After(begins), nil })
	var gets, lists []time.Duration
	for i := 0; len(gets) < 5 || acts.Load() < int64(s.clients); i++ {
		gets = append(gets, b.ask(t, honest, "/api/v1/namespaces/small/pods/s0001", "s0001"))
		lists = append(lists, b.ask(t, honest, "/api/v1/namespaces/small/pods", fmt.Sprintf("s%04d", besiegedSmall-1)))
	}
	b.add("small", fmt.Sprint("new", b.version), 200)
	b.flush()
	event, err := bufio.NewReader(watch.Body).ReadString('\n')
	if err != nil || !strings.Contains(event, `"resourceVersion":"`+strconv.Itoa(b.version)+`"`) {
		t.Errorf("the honest watch has %.200q, %v", event, err)
	}
	stop()
	slices.Sort(gets)
	slices.Sort(lists)
	peak := b.peak(t)
	t.Logf("peak %d MB; %d acts; %d gets, half in %s, the slowest in %s; lists in %s, %s", peak>>20, acts.Load(), len(gets), gets[len(gets)/2], gets[len(gets)-1],
		lists[len(lists)/2], lists[len(lists)-1])
	if peak > 256<<20 {
		t.Error("that is too much memory")
	}
}

// ask returns after which time an honest user has an answer.
func (b *besieged) ask(t *testing.T, client *http.Client, path, want string) time.Duration {
	t.Helper()
	began := time.Now()
	answer, err := client.Do(b.request(t.Context(), path, "honest.a"))
	ok(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
		t.Fatalf("%s: %s, %v %.200s", path, answer.Status, err, body)
	}
	return time.Since(began)
}

// peak returns the most memory that the process had resident since it was last reset.
func (b *besieged) peak(t *testing.T) (bytes int64) {
	t.Helper()
	status := must[[]byte](t)(os.ReadFile(fmt.Sprintf("/proc/%d/status", b.process.Pid)))
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscanf(after, "%d kB", &bytes); err != nil {
		t.Fatal(err)
	}
	return bytes << 10
}

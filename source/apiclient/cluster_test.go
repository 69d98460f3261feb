package apiclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// clusters is a proxy of HTTP that takes each request to the cluster that it leads to at the time, over whatever connection.
type clusters struct {
	uid    atomic.Value
	status atomic.Int32 // the status of the identity's answer, or 0 if it can be read
	asked  atomic.Int32 // how often
	ends   atomic.Int32 // so many lists end their connection, as --goaway-chance does
	flows  string       // whether answers have a FlowSchema: "" if not, "empty", or "own", which is their cluster's
	dials  atomic.Int32 // connections
}

// flowSchema sets the header by which an answer shows its cluster.
func (c *clusters) flowSchema(w http.ResponseWriter, uid string) {
	switch c.flows {
	case "own":
		w.Header().Set("X-Kubernetes-PF-FlowSchema-UID", "the FlowSchema of the "+uid)
	case "empty":
		w.Header().Set("X-Kubernetes-PF-FlowSchema-UID", "")
	}
}

func (c *clusters) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	uid := c.uid.Load().(string)
	c.flowSchema(w, uid)
	switch {
	case r.URL.Path == KubeSystem:
		c.asked.Add(1)
		if code := int(c.status.Load()); code != 0 {
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"kind":"Status","code":%d,"message":"not now"}`, code)
			return
		}
		fmt.Fprintf(w, `{"metadata":{"name":"kube-system","uid":%q,"resourceVersion":"1"}}`, uid)
	case r.URL.Query().Has("watch"):
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case strings.HasSuffix(r.URL.Path, "/secrets"):
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","code":404,"reason":"NotFound"}`)
	default:
		if c.ends.Add(-1) >= 0 {
			w.Header().Set("Connection", "close")
		}
		fmt.Fprintf(w, `{"kind":"List","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":%q,"uid":"u","resourceVersion":"7"}}]}`, uid)
	}
}

func newClusters(t *testing.T) (*clusters, *Client) {
	t.Helper()
	c := &clusters{}
	c.uid.Store("first")
	server := httptest.NewUnstartedServer(c)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			c.dials.Add(1)
		}
	}
	server.EnableHTTP2, server.Config.ErrorLog = true, log.New(io.Discard, "", 0) // errors of connections that are not needed after all
	server.StartTLS()
	client, err := New(&rest.Config{Host: server.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	must(t, err)
	client.Expect("first")
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return c, client
}

func listOf(resource string, c *Client) (items int, err error) {
	s := change.NewStream(change.Resource{Version: "v1", Plural: resource}, "", "", "")
	_, err = c.List(context.Background(), s, ListOptions{Limit: 500}, func(*Page, *Object, error) error { items++; return nil })
	return items, err
}

// No answer of another cluster is used, be it a list, an error or a watch. No later answer is used either, though the first cluster is
// back.
func TestNothingOfAnotherClusterIsUsed(t *testing.T) {
	for name, do := range map[string]func(*Client) (int, error){
		"a list":             func(c *Client) (int, error) { return listOf("pods", c) },
		"a 404":              func(c *Client) (int, error) { return listOf("secrets", c) },
		"on new connections": func(c *Client) (int, error) { fresh, _ := c.Fresh(); return listOf("pods", fresh) },
		"many small reads":   func(c *Client) (int, error) { _, _ = listOf("pods", c.Loosely()); return 0, c.SameCluster(t.Context()) },
		"a watch": func(c *Client) (int, error) {
			_, err := c.Watch(t.Context(), change.NewStream(change.Resource{Version: "v1", Plural: "pods"}, "", "", ""), false, "7", 60)
			return 0, err
		},
		"a streaming list": func(c *Client) (int, error) {
			_, err := c.Watch(t.Context(), change.NewStream(change.Resource{Version: "v1", Plural: "pods"}, "", "", ""), false, "", 60)
			return 0, err
		},
	} {
		for _, flows := range []string{"", "empty", "own"} {
			nothingIsUsed(t, name, flows, do)
		}
	}
}

func nothingIsUsed(t *testing.T, name, flows string, do func(*Client) (int, error)) {
	t.Run(name+", FlowSchema: "+flows, func(t *testing.T) {
		c, client := newClusters(t)
		c.flows = flows
		if n, err := listOf("pods", client); n != 1 || err != nil {
			t.Fatalf("of its own cluster: %d items, %v", n, err)
		}
		c.uid.Store("second")
		for range 2 {
			n, err := do(client)
			var other *OtherClusterError
			if n != 0 || !errors.As(err, &other) || other.Known != "first" || other.Here != "second" {
				t.Fatalf("%d items, %v", n, err)
			}
			c.uid.Store("first")
		}
		if err := client.OtherCluster(t.Context()); err == nil {
			t.Error("another cluster was found, and OtherCluster did not return")
		}
	})
}

// A proxy takes the requests of one connection to another cluster from some moment on, while many are made. No answer of the
// other cluster is used, whether the answers show their cluster or not.
func TestNothingIsUsedAfterAProxyLeadsElsewhereUnderOneConnection(t *testing.T) {
	for _, flows := range []string{"", "empty", "own"} {
		t.Run("FlowSchema: "+flows, func(t *testing.T) {
			c, client := newClusters(t)
			c.flows = flows
			if _, err := listOf("pods", client); err != nil {
				t.Fatal(err)
			}
			var used atomic.Int32
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					s := change.NewStream(change.Resource{Version: "v1", Plural: "pods"}, "", "", "")
					for {
						_, err := client.List(t.Context(), s, ListOptions{Limit: 500}, func(_ *Page, o *Object, _ error) error {
							if o.Name != "first" {
								t.Errorf("object %q is used", o.Name)
							}
							if used.Add(1) == 500 {
								c.uid.Store("second")
							}
							return nil
						})
						if err != nil {
							var other *OtherClusterError
							if !errors.As(err, &other) {
								t.Error(err)
							}
							return
						}
					}
				})
			}
			wg.Wait()
			if c.dials.Load() != 1 || used.Load() < 500 {
				t.Errorf("%d connections, %d answers used", c.dials.Load(), used.Load())
			}
		})
	}
}

// An answer that shows its cluster needs no read of the identity, once one answer had both. All others do.
func TestAnAnswerThatShowsItsClusterNeedsNoOtherRead(t *testing.T) {
	for flows, reads := range map[string]int32{"": 10, "empty": 10, "own": 1} {
		c, client := newClusters(t)
		c.flows = flows
		for range 10 {
			if _, err := listOf("pods", client); err != nil {
				t.Fatal(err)
			}
		}
		if n := c.asked.Load(); n != reads {
			t.Errorf("FlowSchema %q: ten lists read the identity %d times, want %d", flows, n, reads)
		}
	}
}

// An identity that can't be read proves nothing: the answer is not used, and it is no refusal of what was asked for.
func TestAnIdentityThatCantBeReadProvesNothing(t *testing.T) {
	for _, code := range []int{401, 403, 404, 500, 503} {
		c, client := newClusters(t)
		c.status.Store(int32(code))
		n, err := listOf("pods", client)
		var other *OtherClusterError
		if n != 0 || err == nil || errors.As(err, &other) || IsRefused(err) || !strings.Contains(err.Error(), "is still that of the exported cluster") {
			t.Errorf("%d: %d items, %v", code, n, err)
		}
		c.status.Store(0)
		if n, err := listOf("pods", client); n != 1 || err != nil {
			t.Errorf("after %d: %d items, %v", code, n, err)
		}
	}
}

// A server that ends the connection with its answer (GOAWAY) costs another request, and no error.
func TestAConnectionThatEndsWithItsAnswerIsNoError(t *testing.T) {
	c, client := newClusters(t)
	c.ends.Store(2)
	if n, err := listOf("pods", client); n != 1 || err != nil {
		t.Errorf("%d items, %v", n, err)
	}
}

// 200 watches that open at once, on fresh connections too, share a few reads of the identity.
func TestWatchesThatOpenTogetherShareTheIdentity(t *testing.T) {
	c, client := newClusters(t)
	ctx, cancel := servers.Patient(t.Context())
	defer cancel()
	opened := make(chan struct{}, 200)
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			for ctx.Err() == nil { // as a stream does
				fresh, err := client.Fresh()
				if err != nil {
					t.Error(err)
					return
				}
				w, err := fresh.Watch(ctx, change.NewStream(change.Resource{Version: "v1", Plural: "pods"}, "", "", ""), false, "7", 60)
				if err == nil {
					opened <- struct{}{}
					_, _ = w.Next()
					w.Close()
				}
			}
		})
	}
	for range 200 {
		select {
		case <-opened:
		case <-ctx.Done():
			t.Fatal("not all watches are open")
		}
	}
	if n := c.asked.Load(); n > 20 {
		t.Errorf("200 watches read the identity %d times", n)
	}
	t.Logf("200 watches read the identity %d times", c.asked.Load())
	cancel()
	wg.Wait()
}

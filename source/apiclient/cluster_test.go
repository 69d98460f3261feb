package apiclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
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
}

func (c *clusters) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == KubeSystem:
		c.asked.Add(1)
		if code := int(c.status.Load()); code != 0 {
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"kind":"Status","code":%d,"message":"not now"}`, code)
			return
		}
		fmt.Fprintf(w, `{"metadata":{"name":"kube-system","uid":%q,"resourceVersion":"1"}}`, c.uid.Load())
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
		fmt.Fprint(w, `{"kind":"List","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a","uid":"u","resourceVersion":"7"}}]}`)
	}
}

func newClusters(t *testing.T) (*clusters, *Client) {
	t.Helper()
	c := &clusters{}
	c.uid.Store("first")
	server := httptest.NewUnstartedServer(c)
	server.EnableHTTP2, server.Config.ErrorLog = true, log.New(io.Discard, "", 0) // errors of connections that are not needed after all
	server.StartTLS()
	client, err := New(&rest.Config{Host: server.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
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
		t.Run(name, func(t *testing.T) {
			c, client := newClusters(t)
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

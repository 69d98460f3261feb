package apiclient

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/change"
)

// Lists and streaming lists come in gzip where the server is far away, or where that is asked for. Watches never do.
func TestListsOfAFarServerAreCompressed(t *testing.T) {
	var asked []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == KubeSystem {
			fmt.Fprint(w, `{"metadata":{"name":"kube-system","uid":"first","resourceVersion":"1"}}`)
			return
		}
		asked = append(asked, r.Header.Get("Accept-Encoding"))
		if r.Header.Get("Accept-Encoding") == "gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			packed := gzip.NewWriter(w)
			defer packed.Close()
			fmt.Fprint(packed, answerTo(r))
			return
		}
		fmt.Fprint(w, answerTo(r))
	}))
	defer server.Close()
	pods := change.NewStream(change.Resource{Version: "v1", Plural: "pods"}, "", "", "")
	for _, c := range []struct {
		how  string
		trip time.Duration
		want string // the compression of a list, a streaming list and a watch
	}{{"auto", time.Nanosecond, "||"}, {"auto", 25 * time.Millisecond, "gzip|gzip|"}, {"gzip", time.Nanosecond, "gzip|gzip|"}, {"none", 25 * time.Millisecond, "||"}} {
		client, err := New(&rest.Config{Host: server.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
		must(t, err)
		client.Compress(c.how)
		client.road.record(c.trip)
		client.road.record(c.trip + time.Second)
		asked = nil
		if n, err := listOf("pods", client); n != 1 || err != nil {
			t.Errorf("%s: %d items of a list, %v", c.how, n, err)
		}
		for _, version := range []change.ResourceVersion{"", "7"} {
			w, err := client.Watch(t.Context(), pods, false, version, 60)
			must(t, err)
			if e, err := w.Next(); e.Object.Name != "a" || err != nil {
				t.Errorf("%s: a watch from %q begins with %+v, %v", c.how, version, e, err)
			}
			w.Close()
		}
		if got := strings.Join(asked, "|"); got != c.want {
			t.Errorf("%s, with a round trip of %s: asked for %q, want %q", c.how, c.trip, got, c.want)
		}
	}
}

func answerTo(r *http.Request) string {
	const object = `{"metadata":{"name":"a","uid":"u","resourceVersion":"7"}}`
	if r.URL.Query().Has("watch") {
		return `{"type":"ADDED","object":` + object + "}\n"
	}
	return `{"kind":"List","metadata":{"resourceVersion":"7"},"items":[` + object + `]}`
}

// The identity that is read behind each answer shows how far away the server is.
func TestTheRoundTripIsRecorded(t *testing.T) {
	_, client := newClusters(t)
	if _, err := listOf("pods", client); err != nil || client.road.trip.Load() == 0 {
		t.Errorf("round trip %d, %v", client.road.trip.Load(), err)
	}
}

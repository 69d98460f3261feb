package apiclient_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/test/require"
)

var must = require.NoError

// An event that is read long after it was sent happened after the time that it tells. One that is read as it comes tells that.
func TestAnEventThatWaitedTellsSinceWhen(t *testing.T) {
	sent := make(chan time.Time, 3)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		for n, pause := range []time.Duration{2 * time.Second, 100 * time.Millisecond, 5 * time.Second} {
			w.(http.Flusher).Flush()
			time.Sleep(pause) // the server's part: when it has something to tell
			moment := time.Now()
			fmt.Fprintf(w, `{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a","uid":"u","resourceVersion":"%d"}}}`+"\n", n+8)
			w.(http.Flusher).Flush()
			sent <- moment
		}
		<-r.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	client, err := apiclient.New(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	must(t, err)
	w, err := client.Watch(t.Context(), change.NewStream(change.Resource{Version: "v1", Plural: "pods"}, "", "", ""), false, "7", 60)
	must(t, err)
	defer w.Close()
	if w.Connection() == nil {
		t.Error("nothing else can be asked over the connection of HTTP/2")
	}
	for n, waits := range []bool{false, true, false} {
		var moment time.Time
		if waits {
			moment = <-sent
			time.Sleep(2 * time.Second) // the sink takes nothing
		}
		e, err := w.Next()
		must(t, err)
		if !waits {
			moment = <-sent
		}
		if late := time.Since(e.Since); e.Since.After(moment.Add(time.Second)) || waits && late < 2*time.Second {
			t.Errorf("event %d was sent %s before it was read, and happened %s before or later", n+1, time.Since(moment), late)
		}
		if n == 2 && e.Since.Before(moment.Add(-time.Second)) {
			t.Errorf("event %d was read as it came, and may have happened %s before", n+1, moment.Sub(e.Since))
		}
	}
}

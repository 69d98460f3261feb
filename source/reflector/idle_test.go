package reflector_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/config"
	"kubecdc/source/reflector"
)

// idleServer has one object, and sends bookmarks as kube-apiserver does: every minute, and two seconds before a watch ends.
type idleServer struct{ requests atomic.Int64 }

func (f *idleServer) RoundTrip(r *http.Request) (*http.Response, error) {
	f.requests.Add(1)
	var body io.Reader
	q := r.URL.Query()
	if q.Get("watch") == "" {
		version := q.Get("resourceVersion")
		if version == "" {
			version = "100"
		}
		reader, writer := io.Pipe()
		go func() { fmt.Fprint(writer, listed(version, "", "a a 90")); writer.Close() }()
		body = reader
	} else {
		seconds, _ := strconv.Atoi(q.Get("timeoutSeconds"))
		reader, writer := io.Pipe()
		go watchIdly(r, writer, time.Duration(seconds)*time.Second)
		body = reader
	}
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(body), Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
}

func watchIdly(r *http.Request, w *io.PipeWriter, lasts time.Duration) {
	defer w.Close()
	end, last := time.After(lasts), time.After(lasts-2*time.Second)
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-end:
			return
		case <-last:
		case <-minute.C:
		}
		fmt.Fprint(w, bookmark("100"))
	}
}

// By default an idle stream costs the server as little as an informer's, which opens a watch every five to ten minutes. The server's own
// bookmarks serve as watermarks.
func TestAnIdleStreamAsksRarelyByDefault(t *testing.T) {
	settings, _, err := config.Load([]string{"KUBECDC_RESOURCES=pods"}, nil)
	mustDo(t, err)
	perSecond := func(watermark time.Duration) (of200 float64) {
		const streams, lasts = 20, 30 * time.Minute
		server := &idleServer{}
		synctest.Test(t, func(t *testing.T) {
			var stops []func() error
			for range streams {
				options := reflector.DefaultOptions()
				options.Watermark = watermark
				l := newLedger()
				l.moved = make(chan struct{})
				_, stop := startOn(t, &rest.Config{Host: "http://script", Transport: server, QPS: -1}, options, l, &quietObserver{})
				stops = append(stops, stop)
			}
			time.Sleep(lasts)
			for _, stop := range stops {
				_ = stop()
			}
		})
		return float64(server.requests.Load()) * 200 / streams / lasts.Seconds()
	}
	got := perSecond(settings.Source.Watermarks)
	t.Logf("200 idle streams make %.2f requests a second; with watermarks every 30 s %.2f", got, perSecond(30*time.Second))
	if got > 1 {
		t.Errorf("200 idle streams make %.2f requests a second, an informer 0.5", got)
	}
}

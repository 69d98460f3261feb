package observe

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kubecdc/change"
)

// lagCollector computes each stream's lag when metrics are scraped, so that the lag grows while no position arrives.
type lagCollector struct {
	desc *prometheus.Desc
	now  func() time.Time

	mu sync.Mutex
	at map[change.StreamID]time.Time // time of the newest position by stream
}

func newLagCollector(now func() time.Time) *lagCollector {
	return &lagCollector{
		desc: prometheus.NewDesc("kubecdc_stream_lag_seconds",
			"Time since the stream was last known to be complete in the log; bookmarks update it about once a minute.",
			[]string{"stream"}, nil),
		now: now, at: map[change.StreamID]time.Time{},
	}
}

func (l *lagCollector) set(stream change.StreamID, t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at[stream] = t
}

func (l *lagCollector) drop(stream change.StreamID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.at, stream)
}

func (l *lagCollector) Describe(ch chan<- *prometheus.Desc) { ch <- l.desc }

func (l *lagCollector) Collect(ch chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for stream, at := range l.at {
		lag := max(l.now().Sub(at).Seconds(), 0)
		ch <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, lag, string(stream))
	}
}

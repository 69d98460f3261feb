package observe

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// MirrorMetrics returns a handler of the metrics of a mirror, which has the log up to a time.
func MirrorMetrics(upTo func() time.Time) http.Handler {
	return promhttp.HandlerFor(newMirror(upTo), promhttp.HandlerOpts{EnableOpenMetrics: true})
}

func newMirror(upTo func() time.Time) *registry {
	r := &registry{Registry: prometheus.NewRegistry()}
	const help = "Up to when the mirror of exporter serve has what the topics have (not by exporter run); 0: nothing yet."
	name := r.describe("mirror_confirmed_timestamp_seconds", "gauge", help, nil)
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
		func() float64 { return seconds(upTo()) }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

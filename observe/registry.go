package observe

import "github.com/prometheus/client_golang/prometheus"

// description is the row of a metric in docs/monitoring.md.
type description struct {
	name, kind, help string
	labels           []string
}

// registry registers metrics, and collects their descriptions.
type registry struct {
	*prometheus.Registry
	described []description
}

// describe returns the full name of a metric.
func (r *registry) describe(name, kind, help string, labels []string) string {
	name = "kubecdc_" + name
	r.described = append(r.described, description{name, kind, help, labels})
	return name
}

func (r *registry) counters(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: r.describe(name, "counter", help, labels), Help: help}, labels)
	r.MustRegister(v)
	return v
}

func (r *registry) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: r.describe(name, "gauge", help, labels), Help: help}, labels)
	r.MustRegister(v)
	return v
}

func (r *registry) counter(name, help string) prometheus.Counter {
	return r.counters(name, help).WithLabelValues()
}

func (r *registry) gauge(name, help string) prometheus.Gauge {
	return r.gauges(name, help).WithLabelValues()
}

func (r *registry) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	name = r.describe(name, "histogram", help, labels)
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	r.MustRegister(v)
	return v
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

package observe

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kubecdc/change"
)

// ageCollector computes when metrics are scraped how long ago something happened to each stream, so that the age grows while
// nothing happens.
type ageCollector struct {
	desc *prometheus.Desc
	now  func() time.Time

	mu sync.Mutex
	at map[change.StreamID]time.Time
}

func newAgeCollector(name, help string) *ageCollector {
	return &ageCollector{desc: prometheus.NewDesc("kubecdc_"+name, help, []string{"stream"}, nil), now: time.Now,
		at: map[change.StreamID]time.Time{}}
}

func (a *ageCollector) set(stream change.StreamID, t time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at[stream] = t
}

func (a *ageCollector) drop(stream change.StreamID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.at, stream)
}

func (a *ageCollector) Describe(ch chan<- *prometheus.Desc) { ch <- a.desc }

func (a *ageCollector) Collect(ch chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for stream, at := range a.at {
		age := max(a.now().Sub(at).Seconds(), 0)
		ch <- prometheus.MustNewConstMetric(a.desc, prometheus.GaugeValue, age, string(stream))
	}
}

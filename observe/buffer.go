package observe

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// bufferCollector reads each slot's buffer when metrics are scraped, so that slots need not update a gauge for every change.
type bufferCollector struct {
	changes, bytes *prometheus.Desc

	mu    sync.Mutex
	slots map[int]func() (items, bytes int64)
}

func newBufferCollector() *bufferCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("kubecdc_"+name, help, []string{"slot"}, nil)
	}
	return &bufferCollector{
		changes: desc("buffer_changes", "Changes and control records that were read and are not durable yet."),
		bytes:   desc("buffer_bytes", "Bytes of the changes that were read and are not durable yet."),
		slots:   map[int]func() (int64, int64){},
	}
}

// set registers the function that returns the slot's buffer; nil removes the slot.
func (b *bufferCollector) set(slot int, pending func() (items, bytes int64)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if pending == nil {
		delete(b.slots, slot)
		return
	}
	b.slots[slot] = pending
}

func (b *bufferCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- b.changes
	ch <- b.bytes
}

func (b *bufferCollector) Collect(ch chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for slot, pending := range b.slots {
		items, bytes := pending()
		name := strconv.Itoa(slot)
		ch <- prometheus.MustNewConstMetric(b.changes, prometheus.GaugeValue, float64(items), name)
		ch <- prometheus.MustNewConstMetric(b.bytes, prometheus.GaugeValue, float64(bytes), name)
	}
}

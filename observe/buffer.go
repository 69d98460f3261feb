package observe

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// bufferCollector asks each slot, when it is asked itself, what it has read and not yet made durable: so that the slots
// need not tell with every change.
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
		changes: desc("buffer_changes", "Changes and positions read and not yet durable."),
		bytes:   desc("buffer_bytes", "Bytes of what is read and not yet durable."),
		slots:   map[int]func() (int64, int64){},
	}
}

// set replaces what is asked of a slot; nil drops it.
func (b *bufferCollector) set(slot int, fill func() (items, bytes int64)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if fill == nil {
		delete(b.slots, slot)
		return
	}
	b.slots[slot] = fill
}

func (b *bufferCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- b.changes
	ch <- b.bytes
}

func (b *bufferCollector) Collect(ch chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for slot, fill := range b.slots {
		items, bytes := fill()
		name := strconv.Itoa(slot)
		ch <- prometheus.MustNewConstMetric(b.changes, prometheus.GaugeValue, float64(items), name)
		ch <- prometheus.MustNewConstMetric(b.bytes, prometheus.GaugeValue, float64(bytes), name)
	}
}

package observe

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"kubecdc/export"
)

// bufferCollector reads each slot's buffer when metrics are scraped, so that slots need not update a gauge for every change.
type bufferCollector struct {
	changes, bytes, pending *prometheus.Desc

	mu    sync.Mutex
	slots map[int]func() export.Fill
}

func newBufferCollector() *bufferCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("kubecdc_"+name, help, []string{"slot"}, nil)
	}
	return &bufferCollector{
		changes: desc("buffer_changes", "Changes and control records that were read and are not durable yet."),
		bytes:   desc("buffer_bytes", "Bytes of the changes that were read and are not durable yet."),
		pending: desc("checkpoint_pending_objects", "Objects whose last state is in the log and not yet in the checkpoint."),
		slots:   map[int]func() export.Fill{},
	}
}

// set registers the function that returns what the slot has in memory; nil removes the slot.
func (b *bufferCollector) set(slot int, fill func() export.Fill) {
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
	ch <- b.pending
}

func (b *bufferCollector) Collect(ch chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for slot, fill := range b.slots {
		f := fill()
		name := strconv.Itoa(slot)
		ch <- prometheus.MustNewConstMetric(b.changes, prometheus.GaugeValue, float64(f.Changes), name)
		ch <- prometheus.MustNewConstMetric(b.bytes, prometheus.GaugeValue, float64(f.Bytes), name)
		ch <- prometheus.MustNewConstMetric(b.pending, prometheus.GaugeValue, float64(f.Pending), name)
	}
}

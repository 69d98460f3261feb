package observe

import (
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kubecdc/change"
	"kubecdc/export"
)

// buffers are the gauges of what the slots have in memory. A slot without a session has nothing there.
type buffers struct {
	changes, bytes, maxChanges, maxBytes, pending *prometheus.Desc

	mu    sync.Mutex
	slots map[string]*buffer
}

type buffer struct {
	fill func() export.Fill // nil: there is no session
	last export.Fill
}

func newBuffers(r *registry) *buffers {
	b := &buffers{
		changes:    r.scraped("buffer_changes", "Changes and control records that were read and are not durable yet.", "slot"),
		bytes:      r.scraped("buffer_bytes", "Bytes of the changes that were read and are not durable yet.", "slot"),
		maxChanges: r.scraped("buffer_limit_changes", "So many changes and control records the slot may have read that are not durable yet.", "slot"),
		maxBytes:   r.scraped("buffer_limit_bytes", "So many bytes the slot may have read that are not durable yet. Then its streams wait.", "slot"),
		pending:    r.scraped("checkpoint_pending_objects", "Objects whose last state is in the log and not yet in the checkpoint.", "slot"),
		slots:      map[string]*buffer{},
	}
	r.MustRegister(&scraped{[]*prometheus.Desc{b.changes, b.bytes, b.maxChanges, b.maxBytes, b.pending}, b.collect})
	return b
}

func (b *buffers) add(slot string) *buffer {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.slots[slot] == nil {
		b.slots[slot] = &buffer{}
	}
	return b.slots[slot]
}

func (b *buffers) collect(emit func(*prometheus.Desc, float64, ...string)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for slot, x := range b.slots {
		f := x.read()
		emit(b.changes, float64(f.Changes), slot)
		emit(b.bytes, float64(f.Bytes), slot)
		emit(b.maxChanges, float64(f.MaxChanges), slot)
		emit(b.maxBytes, float64(f.MaxBytes), slot)
		emit(b.pending, float64(f.Pending), slot)
	}
}

// read returns what the slot has in memory. Its limits stay while it has no session.
func (x *buffer) read() export.Fill {
	if x.fill == nil {
		return export.Fill{MaxChanges: x.last.MaxChanges, MaxBytes: x.last.MaxBytes}
	}
	x.last = x.fill()
	return x.last
}

// since returns the time of the first record of each stream that has records which are not durable yet.
func (b *buffers) since() map[change.StreamID]time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[change.StreamID]time.Time{}
	for _, x := range b.slots {
		maps.Copy(all, x.read().Streams)
	}
	return all
}

// Buffering sets the function that returns what a slot has in memory; nil: nothing.
func (m *Metrics) Buffering(slot int, fill func() export.Fill) {
	b := m.buffers.add(strconv.Itoa(slot))
	m.buffers.mu.Lock()
	defer m.buffers.mu.Unlock()
	if b.fill == nil || fill != nil {
		b.fill = fill
		return
	}
	b.read()
	b.fill = nil
}

package observe

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"kubecdc/change"
	"kubecdc/export"
	"kubecdc/source/reflector"
)

// The stages of the metrics commit_seconds and errors_total.
const (
	StageSource     = "source"     // errors of lists and watches
	StageSink       = "sink"       // time to write a batch to the sink; errors that the sink retries, or that end a session
	StageCheckpoint = "checkpoint" // time to checkpoint the batch; errors that end a session
	StageCommit     = "commit"     // other errors that end a session
)

// Metrics are the exporter's metrics. The methods may be called from any goroutine, and do not block.
type Metrics struct {
	registry *prometheus.Registry

	changes       *prometheus.CounterVec   // resource, op
	ignored       *prometheus.CounterVec   // resource
	batches       *prometheus.CounterVec   // slot
	batchChanges  prometheus.Histogram     // changes
	batchBytes    prometheus.Histogram     // bytes
	commit        *prometheus.HistogramVec // stage; seconds
	streamState   *prometheus.GaugeVec     // stream, state; 0 or 1
	lag           *ageCollector            // stream; seconds
	proofAge      *ageCollector            // stream; seconds
	proofDiffers  *prometheus.GaugeVec     // stream; objects
	proofs        *prometheus.CounterVec   // result
	relists       *prometheus.CounterVec   // reason
	gaps          *prometheus.CounterVec   // complete
	recovery      *prometheus.GaugeVec     // stream; 0 to 1
	watchRestarts prometheus.Counter
	errors        *prometheus.CounterVec // stage
	deadLetters   *prometheus.CounterVec // resource
	slotEpoch     *prometheus.GaugeVec   // slot
	slotHeld      *prometheus.GaugeVec   // slot; 0 or 1
	replicas      prometheus.Gauge
	slotShare     prometheus.Gauge
	standby       prometheus.Gauge // 0 or 1
	buffer        *bufferCollector // slot
}

// NewMetrics registers all metrics, and those of the Go runtime and the process.
func NewMetrics(version string) *Metrics {
	m := &Metrics{
		registry:     prometheus.NewRegistry(),
		changes:      counter("changes_total", "Changes written to the sink.", "resource", "op"),
		ignored:      counter("ignored_updates_total", "Updates that were not written: see KUBECDC_IGNORE_FIELDS and KUBECDC_OPS.", "resource"),
		batches:      counter("batches_total", "Batches written to the sink.", "slot"),
		batchChanges: histogram("batch_changes", "Changes in a batch.", prometheus.ExponentialBuckets(1, 4, 8)),
		batchBytes:   histogram("batch_bytes", "Bytes of the objects in a batch.", prometheus.ExponentialBuckets(1<<10, 4, 10)),
		commit:       commitSeconds(),
		streamState:  gauge("stream_state", "1 for the current state of the stream.", "stream", "state"),
		lag: newAgeCollector("stream_lag_seconds",
			"Time since the stream was last known to be complete in the log; bookmarks update it about once a minute."),
		proofAge:      newAgeCollector("proof_age_seconds", "Time since the stream's objects were last compared with the API server."),
		proofDiffers:  gauge("proof_differences", "Objects that differed from the API server in the stream's last proof.", "stream"),
		proofs:        counter("proofs_total", "Comparisons of a stream's objects with the API server.", "result"),
		relists:       counter("relists_total", "Lists that were needed because a watch could not resume.", "reason"),
		gaps:          counter("gaps_total", "Gaps in watches; complete: all of its changes were recovered.", "complete"),
		recovery:      gauge("recovery_progress", "Part of a gap's revisions that is accounted for, while the gap is recovered.", "stream"),
		watchRestarts: plainCounter("watch_restarts_total", "Watches that were resumed from their position, without a list."),
		errors:        counter("errors_total", "Errors that were retried.", "stage"),
		deadLetters:   counter("dead_letters_total", "Records that were sent to the dead-letter topic.", "resource"),
		slotEpoch:     gauge("slot_epoch", "Epoch of a held slot. It grows with each change of owner.", "slot"),
		slotHeld:      gauge("slot_held", "1 while this process owns the slot.", "slot"),
		replicas:      plainGauge("replicas", "Live replicas, as this one sees it."),
		slotShare:     plainGauge("slots_share", "Slots that this replica should hold. kubecdc_slot_held says which it holds."),
		standby:       plainGauge("standby", "1 while this replica holds no slot because others hold them all."),
		buffer:        newBufferCollector(),
	}
	m.register(version)
	return m
}

func (m *Metrics) register(version string) {
	build := gauge("build_info", "1, with the version as a label.", "version")
	build.WithLabelValues(version).Set(1)
	m.registry.MustRegister(m.changes, m.ignored, m.batches, m.batchChanges, m.batchBytes, m.commit, m.streamState, m.lag, m.relists,
		m.proofAge, m.proofDiffers, m.proofs, m.gaps, m.recovery, m.watchRestarts, m.errors, m.deadLetters, m.slotEpoch, m.slotHeld, m.buffer, m.replicas, m.slotShare, m.standby, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, complete := range []string{"true", "false"} { // so that alerts find them before the first gap
		m.gaps.WithLabelValues(complete)
	}
	for _, result := range []change.ProofResult{change.ProofEqual, change.ProofDifferent} {
		m.proofs.WithLabelValues(string(result))
	}
	for _, stage := range []string{StageSource, StageSink, StageCheckpoint, StageCommit} {
		m.errors.WithLabelValues(stage)
	}
}

// Handler serves /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Batch counts a batch that was written to the sink.
func (m *Metrics) Batch(b *change.Batch) {
	type kind struct {
		stream *change.Stream
		op     change.Op
	}
	size, counts := 0, map[kind]int{}
	for i := range b.Changes {
		c := &b.Changes[i]
		size += len(c.Before) + len(c.After)
		counts[kind{c.Stream, c.Op}]++
	}
	for k, n := range counts {
		m.changes.WithLabelValues(change.ResourceOf(k.stream.ID()).ID(), k.op.String()).Add(float64(n))
	}
	m.batches.WithLabelValues(strconv.Itoa(b.Slot)).Inc()
	m.batchChanges.Observe(float64(len(b.Changes)))
	m.batchBytes.Observe(float64(size))
}

// Ignored counts updates that were not written, by resource.
func (m *Metrics) Ignored(updates map[string]int) {
	for resource, n := range updates {
		m.ignored.WithLabelValues(resource).Add(float64(n))
	}
}

// Commit records the duration of a stage of a commit: StageSink or StageCheckpoint.
func (m *Metrics) Commit(stage string, took time.Duration) {
	m.commit.WithLabelValues(stage).Observe(took.Seconds())
}

// Position records a stream's position, from whose time its lag is computed.
func (m *Metrics) Position(p change.Position) {
	if p.Ended != "" {
		m.lag.drop(p.Stream)
		return
	}
	m.lag.set(p.Stream, p.Time)
}

// StreamState records a stream's state.
func (m *Metrics) StreamState(stream change.StreamID, state reflector.State) {
	m.streamState.DeletePartialMatch(prometheus.Labels{"stream": string(stream)})
	m.streamState.WithLabelValues(string(stream), string(state)).Set(1)
	if state != reflector.StateBackfilling && state != reflector.StateWaiting {
		m.recovery.DeleteLabelValues(string(stream))
	}
}

// RecoveryProgress records how many of a gap's revisions are accounted for.
func (m *Metrics) RecoveryProgress(stream change.StreamID, done, total int) {
	m.recovery.WithLabelValues(string(stream)).Set(float64(done) / float64(total))
}

// Forget removes a stream.
func (m *Metrics) Forget(stream change.StreamID) {
	m.recovery.DeleteLabelValues(string(stream))
	m.streamState.DeletePartialMatch(prometheus.Labels{"stream": string(stream)})
	m.lag.drop(stream)
	m.proofAge.drop(stream)
	m.proofDiffers.DeleteLabelValues(string(stream))
}

// Proof records the result of a proof.
func (m *Metrics) Proof(stream change.StreamID, p *change.Proof) {
	m.proofs.WithLabelValues(string(p.Result)).Inc()
	if p.Result != change.ProofUnsupported {
		m.proofAge.set(stream, time.Now())
		m.proofDiffers.WithLabelValues(string(stream)).Set(float64(p.Differences()))
	}
}

// Relist counts a list that was needed because a watch could not resume.
func (m *Metrics) Relist(reason reflector.RelistReason) {
	m.relists.WithLabelValues(string(reason)).Inc()
}

// Gap counts a gap that was closed.
func (m *Metrics) Gap(complete bool) { m.gaps.WithLabelValues(strconv.FormatBool(complete)).Inc() }

// WatchRestart counts a watch that was resumed without a list.
func (m *Metrics) WatchRestart() { m.watchRestarts.Inc() }

// Error counts an error that will be retried.
func (m *Metrics) Error(stage string) { m.errors.WithLabelValues(stage).Inc() }

// DeadLetter counts a record that was sent to the dead-letter topic.
func (m *Metrics) DeadLetter(resource string) { m.deadLetters.WithLabelValues(resource).Inc() }

// Slot records whether this process owns the slot, and in which epoch.
func (m *Metrics) Slot(slot int, epoch int64, held bool) {
	name := strconv.Itoa(slot)
	m.slotEpoch.WithLabelValues(name).Set(float64(epoch))
	m.slotHeld.WithLabelValues(name).Set(0)
	if held {
		m.slotHeld.WithLabelValues(name).Set(1)
	}
}

// Replicas records this replica's status.
func (m *Metrics) Replicas(live, share int, standby bool) {
	m.replicas.Set(float64(live))
	m.slotShare.Set(float64(share))
	m.standby.Set(0)
	if standby {
		m.standby.Set(1)
	}
}

// Buffer registers the function that returns what a slot has in memory; nil removes the slot.
func (m *Metrics) Buffer(slot int, fill func() export.Fill) { m.buffer.set(slot, fill) }

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kubecdc_" + name, Help: help}, labels)
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kubecdc_" + name, Help: help}, labels)
}

func plainCounter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "kubecdc_" + name, Help: help})
}

func plainGauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubecdc_" + name, Help: help})
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "kubecdc_" + name, Help: help, Buckets: buckets})
}

func commitSeconds() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "kubecdc_commit_seconds", Help: "Duration of a stage of a commit.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
	}, []string{"stage"})
}

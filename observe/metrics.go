package observe

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/export/live"
	"kubecdc/internal/dependency"
	"kubecdc/source/reflector"
)

// These are the stages of the metric commit_seconds, in addition to the sink and the checkpoint.
const (
	stageCollect      = "collect"       // from a batch's first record until its commit begins
	stageBeforeImages = "before-images" // to read before-images from the checkpoint
	stagePrepare      = "prepare"       // everything else before the write
)

// Metrics are the exporter's metrics. Any goroutine may call its methods, which do not block. Counters exist from the start, at
// zero. The counters of a resource exist from the moment that the resource is known.
type Metrics struct {
	registry *registry

	changes       *prometheus.CounterVec
	ignored       *prometheus.CounterVec
	deadLetters   *prometheus.CounterVec
	audit         *prometheus.CounterVec
	lastAudit     prometheus.Gauge
	batches       *prometheus.CounterVec
	batchChanges  prometheus.Observer
	batchBytes    prometheus.Observer
	commit        *prometheus.HistogramVec
	relists       *prometheus.CounterVec
	gaps          *prometheus.CounterVec
	proofs        *prometheus.CounterVec
	watchRestarts prometheus.Counter
	errors        *prometheus.CounterVec
	requests      *prometheus.CounterVec
	sessions      *prometheus.CounterVec

	unanswered atomic.Bool // the last request to the API server got no answer

	mu        sync.Mutex
	resources map[change.StreamID]resourceCounters
}

// resourceCounters are the counters of a stream's resource. With them a batch needs no search by labels.
type resourceCounters map[change.Op]prometheus.Counter

// NewMetrics registers all metrics of the exporter, the Go runtime and the process. It counts what the exporter does from now on.
func NewMetrics(version string, exporter *live.Exporter) *Metrics {
	r := &registry{Registry: prometheus.NewRegistry()}
	m := &Metrics{registry: r, resources: map[change.StreamID]resourceCounters{}}
	r.gauges("build_info", "1, with the version as a label.", "version").WithLabelValues(version).Set(1)
	gauges := &gauges{exporter: exporter, unanswered: &m.unanswered}
	gauges.registerProcess(r)
	m.registerProcess(r)
	m.registerSlots(r)
	gauges.registerSlots(r)
	gauges.registerStreams(r)
	m.registerStreams(r)
	r.MustRegister(gauges, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.startAtZero(exporter.Snapshot().Slots)
	exporter.Count = m
	return m
}

func (m *Metrics) registerProcess(r *registry) {
	m.errors = r.counters("errors_total", "Errors that were retried; stage: source (lists and watches), sink, checkpoint, "+
		"commit (all others).",
		"stage")
	m.requests = r.counters("apiserver_requests_total", "Requests to the API server, by HTTP status; error: there was no answer.",
		"verb", "code")
}

func (m *Metrics) registerSlots(r *registry) {
	m.sessions = r.counters("session_failures_total", "Sessions that an error has ended.", "slot")
	m.batches = r.counters("batches_total", "Batches written to the sink.", "slot")
	m.batchChanges = r.histograms("batch_changes", "Changes in a batch.",
		prometheus.ExponentialBuckets(1, 4, 8)).WithLabelValues()
	m.batchBytes = r.histograms("batch_bytes", "Bytes of the objects in a batch.",
		prometheus.ExponentialBuckets(1<<10, 4, 10)).WithLabelValues()
	m.commit = r.histograms("commit_seconds", "Duration of a commit's stage: collect, before-images, prepare, sink, checkpoint "+
		"(may be of several batches).",
		prometheus.ExponentialBuckets(0.001, 2, 14), "stage")
}

func (m *Metrics) registerStreams(r *registry) {
	m.relists = r.counters("relists_total", "Lists because a watch could not resume.", "reason")
	m.gaps = r.counters("gaps_total", "Gaps in watches; complete: all changes were recovered.", "cause", "complete")
	m.watchRestarts = r.counter("watch_restarts_total", "Watches that were resumed without a list.")
	m.proofs = r.counters("proofs_total", "Comparisons of a stream's objects with the API server.", "result")
	m.changes = r.counters("changes_total", "Changes written to the sink; op: c (created), u, d, r (read by a snapshot).",
		"resource", "op")
	m.ignored = r.counters("ignored_updates_total", "Updates not written (KUBECDC_IGNORE_FIELDS, KUBECDC_OPS).", "resource")
	m.audit = r.counters("audit_events_total", "Audit events taken in; result: kept, skipped (no exported object was changed), "+
		"broken (not readable).",
		"result")
	m.lastAudit = r.gauge("audit_last_event_timestamp_seconds", "When this replica last took audit events in; 0: never.")
	m.deadLetters = r.counters("dead_letters_total", "Records sent to the dead-letter topic.", "resource")
}

// startAtZero creates all counters whose labels are known, so that an alert sees the first increase.
func (m *Metrics) startAtZero(slots map[int]live.Slot) {
	for number := range slots {
		m.sessions.WithLabelValues(strconv.Itoa(number))
		m.batches.WithLabelValues(strconv.Itoa(number))
	}
	for _, stage := range []string{live.StageSource, dependency.Sink, dependency.Checkpoint, live.StageCommit} {
		m.errors.WithLabelValues(stage)
	}
	for _, stage := range []string{stageCollect, stageBeforeImages, stagePrepare, dependency.Sink, dependency.Checkpoint} {
		m.commit.WithLabelValues(stage)
	}
	m.AuditEvents(audit.Tally{})
	for _, reason := range reflector.RelistReasons {
		m.relists.WithLabelValues(string(reason))
		m.addGap(string(reason))
	}
	m.addGap(live.GapLogLost)
	for _, result := range []change.ProofResult{change.ProofEqual, change.ProofDifferent, change.ProofUnsupported} {
		m.proofs.WithLabelValues(string(result))
	}
	for _, verb := range []string{verbGet, verbList, verbWatch} {
		for _, code := range []string{"200", "403", "404", "410", "429", "500", "503", "504", codeError} {
			m.requests.WithLabelValues(verb, code)
		}
	}
}

// AuditEvents counts audit events. Events that are delivered twice count twice.
func (m *Metrics) AuditEvents(t audit.Tally) {
	m.audit.WithLabelValues("kept").Add(float64(t.Records))
	m.audit.WithLabelValues("skipped").Add(float64(t.Skipped))
	m.audit.WithLabelValues("broken").Add(float64(t.Broken))
	if t != (audit.Tally{}) {
		m.lastAudit.SetToCurrentTime()
	}
}

func (m *Metrics) addGap(cause string) {
	for _, complete := range []string{"true", "false"} {
		m.gaps.WithLabelValues(cause, complete)
	}
}

func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// countersOf returns the counters of a stream's resource. The first call creates them at zero.
func (m *Metrics) countersOf(stream change.StreamID) resourceCounters {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.resources[stream]
	if c == nil {
		resource := change.ResourceOf(stream).ID()
		c = resourceCounters{}
		for _, op := range []change.Op{change.Create, change.Update, change.Delete, change.Read} {
			c[op] = m.changes.WithLabelValues(resource, op.String())
		}
		m.resources[stream] = c
		m.ignored.WithLabelValues(resource)
		m.deadLetters.WithLabelValues(resource)
	}
	return c
}

// StreamKnown creates the counters of a stream's resource.
func (m *Metrics) StreamKnown(stream change.StreamID) { m.countersOf(stream) }

func (m *Metrics) Committed(c live.Committed) {
	m.batch(c.Batch)
	m.observeStage(stageCollect, c.Collect)
	m.observeStage(stageBeforeImages, c.BeforeImages)
	m.observeStage(stagePrepare, c.Prepare)
	m.observeStage(dependency.Sink, c.Sink)
	for resource, n := range c.Ignored {
		m.ignored.WithLabelValues(resource).Add(float64(n))
	}
	for _, malformed := range c.Batch.Malformed {
		m.DeadLetter(change.ResourceOf(malformed.Stream).ID())
	}
	for _, control := range c.Batch.Controls {
		if control.Proof != nil {
			m.proofs.WithLabelValues(string(control.Proof.Result)).Inc()
		}
	}
}

func (m *Metrics) batch(b *change.Batch) {
	size := 0
	for from := 0; from < len(b.Changes); { // adjacent changes of one stream and one operation are counted together
		first, n := &b.Changes[from], 0
		for ; from+n < len(b.Changes); n++ {
			c := &b.Changes[from+n]
			if c.Stream != first.Stream || c.Op != first.Op {
				break
			}
			size += len(c.Before) + len(c.After)
		}
		m.countersOf(first.Stream.ID())[first.Op].Add(float64(n))
		from += n
	}
	slot := strconv.Itoa(b.Slot)
	m.batches.WithLabelValues(slot).Inc()
	m.batchChanges.Observe(float64(len(b.Changes)))
	m.batchBytes.Observe(float64(size))
}

// observeStage records the duration of a stage of a commit. It ignores 0, which means that the batch did not pass the stage.
func (m *Metrics) observeStage(stage string, observeStage time.Duration) {
	if observeStage > 0 {
		m.commit.WithLabelValues(stage).Observe(observeStage.Seconds())
	}
}

func (m *Metrics) Checkpointed(took time.Duration) { m.observeStage(dependency.Checkpoint, took) }

func (m *Metrics) Relisted(reason reflector.RelistReason) {
	m.relists.WithLabelValues(string(reason)).Inc()
}

func (m *Metrics) Gap(cause string, complete bool) {
	m.gaps.WithLabelValues(cause, strconv.FormatBool(complete)).Inc()
}

func (m *Metrics) WatchRestarted() { m.watchRestarts.Inc() }

func (m *Metrics) Error(stage string) { m.errors.WithLabelValues(stage).Inc() }

func (m *Metrics) SessionFailed(slot int) { m.sessions.WithLabelValues(strconv.Itoa(slot)).Inc() }

func (m *Metrics) DeadLetter(resource string) { m.deadLetters.WithLabelValues(resource).Inc() }

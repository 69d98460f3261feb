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
	"kubecdc/internal/dependency"
	"kubecdc/source/reflector"
)

// The stages of the metrics commit_seconds and errors_total.
const (
	StageSource       = "source"              // errors of lists and watches
	StageCollect      = "collect"             // time from a batch's first record until its commit begins
	StageBeforeImages = "before-images"       // time to read before-images from the checkpoint
	StagePrepare      = "prepare"             // time for everything else before the write
	StageSink         = dependency.Sink       // time to write a batch; errors that the sink retries, or that end a session
	StageCheckpoint   = dependency.Checkpoint // time of a commit of the checkpoint; errors that end a session
	StageCommit       = "commit"              // other errors that end a session
)

// GapLogLost is the cause of a gap that no watch has: what the log had is lost, or it is not known how far it is complete.
const GapLogLost = "the log has lost records"

// Metrics are the exporter's metrics. The methods may be called from any goroutine, and do not block. A counter is there from the
// start, at zero; a counter of a resource from when the resource is known.
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
	slotEpoch     *prometheus.GaugeVec
	slotHeld      *prometheus.GaugeVec
	lastCommit    *prometheus.GaugeVec
	replicas      prometheus.Gauge
	slotShare     prometheus.Gauge
	standby       prometheus.Gauge
	checkpoint    prometheus.Gauge
	buffers       *buffers
	streams       *streamGauges

	health     atomic.Pointer[Health]
	unanswered atomic.Bool // the last request to the API server had no answer

	mu        sync.Mutex
	resources map[change.StreamID]resourceCounters
}

// resourceCounters are the counters of a stream's resource, so that a batch needs no look-up by labels.
type resourceCounters map[change.Op]prometheus.Counter

// NewMetrics registers all metrics, and those of the Go runtime and the process. The slots are those of the layout.
func NewMetrics(version string, slots ...int) *Metrics {
	r := &registry{Registry: prometheus.NewRegistry()}
	m := &Metrics{registry: r, resources: map[change.StreamID]resourceCounters{}}
	r.gauges("build_info", "1, with the version as a label.", "version").WithLabelValues(version).Set(1)
	m.registerProcess(r)
	m.registerSlots(r)
	m.streams = newStreamGauges(r, m.buffers.since)
	m.registerStreams(r)
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.startAtZero(slots)
	return m
}

func (m *Metrics) registerProcess(r *registry) {
	ready := r.scraped("ready", "1 while /readyz answers 200.")
	up := r.scraped("dependency_up", "0 while the dependency (apiserver, sink, checkpoint) does not answer, or fails, or the start waits for it.",
		"dependency")
	r.MustRegister(&scraped{[]*prometheus.Desc{ready, up}, func(emit func(*prometheus.Desc, float64, ...string)) {
		h := m.health.Load()
		if h == nil {
			return
		}
		emit(ready, boolValue(h.Report().Ready))
		for _, d := range dependency.All {
			emit(up, boolValue(!h.isDown(d) && (d != dependency.APIServer || !m.unanswered.Load())), d)
		}
	}})
	m.replicas = r.gauge("replicas", "Live replicas, as this one sees it.")
	m.standby = r.gauge("standby", "1 while this replica holds no slot because others hold them all.")
	m.slotShare = r.gauge("slots_share", "Slots that this replica should hold. kubecdc_slot_held says which it holds.")
	m.errors = r.counters("errors_total", "Errors that were retried, by stage: source (lists and watches), sink, checkpoint, commit (all others).",
		"stage")
	m.requests = r.counters("apiserver_requests_total", "Requests to the API server, by verb and by the answer's HTTP status; error: there was no answer.",
		"verb", "code")
	m.checkpoint = r.gauge("checkpoint_size_bytes", "Size of the checkpoint's tables, or of its file, with those of other clusters in them.")
}

func (m *Metrics) registerSlots(r *registry) {
	m.slotHeld = r.gauges("slot_held", "1 while this replica owns the slot.", "slot")
	m.slotEpoch = r.gauges("slot_epoch", "Epoch of the slot when this replica held it last. It grows with each change of owner.", "slot")
	m.lastCommit = r.gauges("slot_last_commit_timestamp_seconds", "When this replica last wrote a batch of the slot to the sink; 0: never.", "slot")
	m.sessions = r.counters("session_failures_total", "Sessions of the slot that an error has ended. The next one starts from what is durable.", "slot")
	m.batches = r.counters("batches_total", "Batches written to the sink.", "slot")
	m.batchChanges = r.histograms("batch_changes", "Changes in a batch.", prometheus.ExponentialBuckets(1, 4, 8)).WithLabelValues()
	m.batchBytes = r.histograms("batch_bytes", "Bytes of the objects in a batch.", prometheus.ExponentialBuckets(1<<10, 4, 10)).WithLabelValues()
	m.commit = r.histograms("commit_seconds", "Duration of a stage of a commit: collect (from the batch's first record), before-images, prepare, "+
		"sink, checkpoint (which may be of several batches).", prometheus.ExponentialBuckets(0.001, 2, 14), "stage")
	m.buffers = newBuffers(r)
}

func (m *Metrics) registerStreams(r *registry) {
	m.relists = r.counters("relists_total", "Lists that were needed because a watch could not resume.", "reason")
	m.gaps = r.counters("gaps_total", "Gaps in watches, by cause; complete: all of its changes were recovered.", "cause", "complete")
	m.watchRestarts = r.counter("watch_restarts_total", "Watches that were resumed from their position, without a list.")
	m.proofs = r.counters("proofs_total", "Comparisons of a stream's objects with the API server.", "result")
	m.changes = r.counters("changes_total", "Changes written to the sink; op: c (created), u, d, r (read by a snapshot).", "resource", "op")
	m.ignored = r.counters("ignored_updates_total", "Updates that were not written: see KUBECDC_IGNORE_FIELDS and KUBECDC_OPS.", "resource")
	m.audit = r.counters("audit_events_total", "Audit events taken in, by what became of them: kept, skipped (they changed no object that is exported), "+
		"broken (they could not be read).", "result")
	m.lastAudit = r.gauge("audit_last_event_timestamp_seconds", "When this replica last took audit events in; 0: never.")
	m.deadLetters = r.counters("dead_letters_total", "Records that were sent to the dead-letter topic.", "resource")
}

// startAtZero makes all counters present whose labels are known, so that an alert sees the first increase.
func (m *Metrics) startAtZero(slots []int) {
	for _, slot := range slots {
		m.addSlot(strconv.Itoa(slot))
	}
	for _, stage := range []string{StageSource, StageSink, StageCheckpoint, StageCommit} {
		m.errors.WithLabelValues(stage)
	}
	for _, stage := range []string{StageCollect, StageBeforeImages, StagePrepare, StageSink, StageCheckpoint} {
		m.commit.WithLabelValues(stage)
	}
	m.AuditEvents(audit.Tally{})
	for _, reason := range reflector.RelistReasons {
		m.relists.WithLabelValues(string(reason))
		m.addGap(string(reason))
	}
	m.addGap(GapLogLost)
	for _, result := range []change.ProofResult{change.ProofEqual, change.ProofDifferent, change.ProofUnsupported} {
		m.proofs.WithLabelValues(string(result))
	}
	for _, verb := range []string{verbGet, verbList, verbWatch} {
		for _, code := range []string{"200", "403", "404", "410", "429", "500", "503", "504", codeError} {
			m.requests.WithLabelValues(verb, code)
		}
	}
}

// AuditEvents counts audit events, some of them for the second time: who brings them may bring them again.
func (m *Metrics) AuditEvents(t audit.Tally) {
	m.audit.WithLabelValues("kept").Add(float64(t.Kept))
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

func (m *Metrics) addSlot(name string) {
	m.slotHeld.WithLabelValues(name)
	m.slotEpoch.WithLabelValues(name)
	m.lastCommit.WithLabelValues(name)
	m.sessions.WithLabelValues(name)
	m.batches.WithLabelValues(name)
	m.buffers.add(name)
}

func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// of returns the counters of a stream's resource. They are at zero from the first call.
func (m *Metrics) of(stream change.StreamID) resourceCounters {
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

func (m *Metrics) Batch(b *change.Batch) {
	size := 0
	for from := 0; from < len(b.Changes); { // neighbours of one stream and one operation are counted at once
		first, n := &b.Changes[from], 0
		for ; from+n < len(b.Changes); n++ {
			c := &b.Changes[from+n]
			if c.Stream != first.Stream || c.Op != first.Op {
				break
			}
			size += len(c.Before) + len(c.After)
		}
		m.of(first.Stream.ID())[first.Op].Add(float64(n))
		from += n
	}
	slot := strconv.Itoa(b.Slot)
	m.batches.WithLabelValues(slot).Inc()
	m.lastCommit.WithLabelValues(slot).SetToCurrentTime()
	m.batchChanges.Observe(float64(len(b.Changes)))
	m.batchBytes.Observe(float64(size))
}

func (m *Metrics) Ignored(updates map[string]int) {
	for resource, n := range updates {
		m.ignored.WithLabelValues(resource).Add(float64(n))
	}
}

// Commit records the duration of a stage of a commit; 0: the batch has not passed it.
func (m *Metrics) Commit(stage string, took time.Duration) {
	if took > 0 {
		m.commit.WithLabelValues(stage).Observe(took.Seconds())
	}
}

func (m *Metrics) Relisted(stream change.StreamID, reason reflector.RelistReason) {
	m.relists.WithLabelValues(string(reason)).Inc()
	m.streams.relisted(stream, reason)
}

func (m *Metrics) Gap(stream change.StreamID, g *change.Gap) {
	cause := GapLogLost
	if g.From != change.UnknownVersion {
		cause = string(m.streams.relistReason(stream))
	}
	m.gaps.WithLabelValues(cause, strconv.FormatBool(g.Complete)).Inc()
}

func (m *Metrics) Proof(stream change.StreamID, p *change.Proof) {
	m.proofs.WithLabelValues(string(p.Result)).Inc()
	if p.Result != change.ProofUnsupported {
		m.streams.proven(stream, p.Differences())
	}
}

func (m *Metrics) WatchRestarted(change.StreamID) { m.watchRestarts.Inc() }

func (m *Metrics) Error(stage string) { m.errors.WithLabelValues(stage).Inc() }

func (m *Metrics) SessionFailed(slot int) { m.sessions.WithLabelValues(strconv.Itoa(slot)).Inc() }

func (m *Metrics) DeadLetter(resource string) { m.deadLetters.WithLabelValues(resource).Inc() }

func (m *Metrics) CheckpointSize(bytes int64) { m.checkpoint.Set(float64(bytes)) }

func (m *Metrics) Slot(slot int, epoch int64, held bool) {
	name := strconv.Itoa(slot)
	m.slotEpoch.WithLabelValues(name).Set(float64(epoch))
	m.slotHeld.WithLabelValues(name).Set(boolValue(held))
}

func (m *Metrics) Replicas(live, share int, standby bool) {
	m.replicas.Set(float64(live))
	m.slotShare.Set(float64(share))
	m.standby.Set(boolValue(standby))
}

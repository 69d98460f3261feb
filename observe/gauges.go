package observe

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kubecdc/change"
	"kubecdc/export/live"
	"kubecdc/internal/dependency"
	"kubecdc/status"
)

// gauges are computed from one Snapshot when they are scraped. So no change has to update them, and a lag grows while nothing
// happens.
type gauges struct {
	exporter   *live.Exporter
	unanswered *atomic.Bool // the last request to the API server got no answer
	all        []gauge
}

type gauge struct {
	*prometheus.Desc
	values func(s *live.Snapshot, emit func(value float64, labels ...string))
}

func (g *gauges) add(r *registry, name, help string, values func(*live.Snapshot, func(float64, ...string)), labels ...string) {
	g.all = append(g.all, gauge{prometheus.NewDesc(r.describe(name, "gauge", help, labels), help, labels, nil), values})
}

func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, one := range g.all {
		ch <- one.Desc
	}
}

func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	now := g.exporter.Snapshot()
	for _, one := range g.all {
		one.values(now, func(value float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(one.Desc, prometheus.GaugeValue, value, labels...)
		})
	}
}

func (g *gauges) registerProcess(r *registry) {
	one := func(name, help string, value func(*live.Snapshot) float64) {
		g.add(r, name, help, func(s *live.Snapshot, emit func(float64, ...string)) { emit(value(s)) })
	}
	one("ready", "1 while /readyz answers 200.", func(s *live.Snapshot) float64 { return boolValue(status.ReportOf(s).Ready) })
	g.add(r, "dependency_up", "0 while the dependency (apiserver, sink, checkpoint) fails or does not answer.",
		func(s *live.Snapshot, emit func(float64, ...string)) {
			for _, d := range dependency.All {
				emit(boolValue(!s.Down[d] && (d != dependency.APIServer || !g.unanswered.Load())), d)
			}
		}, "dependency")
	one("replicas", "Live replicas, as this one sees it.", func(s *live.Snapshot) float64 { return float64(s.Replica.Replicas) })
	one("standby", "1 while this replica holds no slot because others hold them all.",
		func(s *live.Snapshot) float64 { return boolValue(s.Replica.Standby != "") })
	one("slots_share", "Slots that this replica should hold.",
		func(s *live.Snapshot) float64 { return float64(s.Replica.Share) })
	one("checkpoint_size_bytes", "Size of the checkpoint's tables or file, of all clusters in them.",
		func(s *live.Snapshot) float64 { return float64(s.CheckpointBytes) })
}

func (g *gauges) registerSlots(r *registry) {
	slot := func(name, help string, value func(*live.Slot) float64) {
		g.add(r, name, help, func(s *live.Snapshot, emit func(float64, ...string)) {
			for number, v := range s.Slots {
				emit(value(&v), strconv.Itoa(number))
			}
		}, "slot")
	}
	slot("slot_held", "1 while this replica owns the slot.", func(s *live.Slot) float64 { return boolValue(s.Held) })
	slot("slot_epoch", "Epoch of the slot when this replica held it last.",
		func(s *live.Slot) float64 { return float64(s.Epoch) })
	slot("slot_last_commit_timestamp_seconds", "When this replica last wrote a batch to the sink; 0: never.",
		func(s *live.Slot) float64 { return seconds(s.LastCommit) })
	slot("buffer_changes", "Changes and control records that are not durable yet.",
		func(s *live.Slot) float64 { return float64(s.Fill.Changes) })
	slot("buffer_bytes", "Bytes of the changes that are not durable yet.",
		func(s *live.Slot) float64 { return float64(s.Fill.Bytes) })
	slot("buffer_limit_changes", "Limit of kubecdc_buffer_changes.",
		func(s *live.Slot) float64 { return float64(s.Fill.MaxChanges) })
	slot("buffer_limit_bytes", "Limit of kubecdc_buffer_bytes. At a limit the streams wait.",
		func(s *live.Slot) float64 { return float64(s.Fill.MaxBytes) })
	slot("spool_bytes", "Size of the slot's spool.", func(s *live.Slot) float64 { return float64(s.Fill.Spool.Bytes) })
	slot("spool_limit_bytes", "Limit of kubecdc_spool_bytes. At the limit nothing is read; 0: there is no spool.",
		func(s *live.Slot) float64 { return float64(s.Fill.Spool.MaxBytes) })
	slot("spool_batches", "Batches in the slot's spool.", func(s *live.Slot) float64 { return float64(s.Fill.Spool.Batches) })
	slot("spool_oldest_timestamp_seconds", "When the spool's oldest batch was read; 0: there is none.",
		func(s *live.Slot) float64 { return seconds(s.Fill.Spool.Oldest) })
	slot("checkpoint_pending_objects", "Objects whose last state is not yet in the checkpoint.",
		func(s *live.Slot) float64 { return float64(s.Fill.Pending) })
}

// registerStreams registers the gauges of streams. A stream whose log has its end has its state alone.
func (g *gauges) registerStreams(r *registry) {
	g.add(r, "streams", "Streams that this replica works on.", countStates, "state")
	g.add(r, "stream_state", "1 for the current state of the stream.", func(s *live.Snapshot, emit func(float64, ...string)) {
		for id, v := range s.Streams {
			if isShown(&v) {
				emit(1, string(id), string(v.State))
			}
		}
	}, "stream", "state")
	stream := func(name, help string, value func(s *live.Snapshot, v *live.Stream) (_ float64, known bool)) {
		g.add(r, name, help, func(s *live.Snapshot, emit func(float64, ...string)) {
			for id, v := range s.Streams {
				if n, known := value(s, &v); known && !v.Ended {
					emit(n, string(id))
				}
			}
		}, "stream")
	}
	stream("stream_confirmed_timestamp_seconds",
		"Up to when the log is known to be complete. Bookmarks confirm a quiet stream about once a minute.",
		func(_ *live.Snapshot, v *live.Stream) (float64, bool) { return seconds(v.Confirmed), true })
	stream("stream_lag_seconds",
		"Age of the oldest change that was read and is not durable, or the time since the stream followed its watch; else 0.",
		func(s *live.Snapshot, v *live.Stream) (float64, bool) {
			return max(s.Time.Sub(v.CompleteUntil).Seconds(), 0), true
		})
	stream("stream_objects", "Objects of the stream that the exporter knows.",
		func(_ *live.Snapshot, v *live.Stream) (float64, bool) { return float64(v.Objects), v.Objects >= 0 })
	stream("stream_refused", "1 while the API server or the sink refuses the stream, or it can't be exported.",
		func(_ *live.Snapshot, v *live.Stream) (float64, bool) { return boolValue(v.Refused), true })
	stream("proof_timestamp_seconds", "When the stream's objects were last compared with the API server.",
		func(_ *live.Snapshot, v *live.Stream) (float64, bool) { return seconds(v.Proven), !v.Proven.IsZero() })
	stream("proof_differences", "Objects that differed in the stream's last proof.",
		func(_ *live.Snapshot, v *live.Stream) (float64, bool) {
			return float64(v.Differing), !v.Proven.IsZero()
		})
}

// isShown reports whether a stream is shown. A stream that was only found in the checkpoint, and has ended, is not.
func isShown(s *live.Stream) bool { return !s.Ended || s.State != live.StateNew }

func countStates(s *live.Snapshot, emit func(float64, ...string)) {
	counts := map[change.StreamState]int{live.StateNew: 0}
	for _, state := range change.StreamStates {
		counts[state] = 0
	}
	for _, v := range s.Streams {
		if isShown(&v) {
			counts[v.State]++
		}
	}
	for state, n := range counts {
		emit(float64(n), string(state))
	}
}

// seconds converts a time to Prometheus' unit. A zero time is 0.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

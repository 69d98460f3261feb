package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// All encodings run at the same time in one Kafka, with creates, updates and deletes, kill -9, and a lost checkpoint. etcd's own
// history judges, and exporter verify.
func TestEncodings(t *testing.T) {
	t.Parallel()
	w := throughFaults(t, []string{"debezium", "debezium-schema", "cloudevents", "object"})["debezium-schema"]
	e := StartExporter(t, "another encoding", w.With("KUBECDC_ENCODING", "object"))
	if code := e.Wait(t); code != 2 || !strings.Contains(e.Tail(4000), "set KUBECDC_ENCODING=debezium-schema") {
		t.Errorf("another encoding of other keys ends with code %d\n%s", code, e.Tail(4000))
	}
}

// throughFaults returns the world of each encoding's exporter. All exporters have the settings.
func throughFaults(t *testing.T, encodings []string, settings ...string) map[string]*World {
	t.Helper()
	kinds := []Kind{ConfigMaps, Widgets}
	first := NewWorld(t)
	writer := first.Writer(t, kinds).Fill(10)
	worlds := map[string]*World{}
	checkpoint := map[string]string{}
	for _, encoding := range encodings {
		w := *first
		w.Prefix, checkpoint[encoding] = first.Prefix+"-"+encoding, filepath.Join(t.TempDir(), "checkpoint.db")
		w.Env = first.With(append(settings, "KUBECDC_ENCODING", encoding, "KUBECDC_KAFKA_TOPIC_PREFIX", w.Prefix,
			"KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_CHECKPOINT", "sqlite:"+checkpoint[encoding])...)
		worlds[encoding] = &w
	}
	// exported runs all exporters while the writer writes, and then kills them: at once, or when their logs are complete.
	exported := func(complete bool) {
		exporters := map[string]*Exporter{}
		for encoding, w := range worlds {
			exporters[encoding] = StartExporter(t, encoding, w.Env)
		}
		for _, e := range exporters {
			e.AwaitReady(t)
		}
		writer.Run(40)
		if complete {
			marks := writer.Marks(kinds)
			for _, w := range worlds {
				w.awaitMarks(t, marks)
			}
		}
		for _, e := range exporters {
			e.Kill()
		}
	}
	exported(false)
	writer.Run(30)
	exported(true) // the tail is read back
	for _, path := range checkpoint {
		must(t, os.Remove(path))
	}
	exported(true) // the checkpoint is rebuilt
	for encoding, w := range worlds {
		log := w.Read(t)
		t.Log(encoding)
		Judge(t, w.Kube, log, w.Prefix, kinds).Demand(t, 0)
		wantNoGapButRecovered(t, log)
		if differ := w.verified(t, 0); len(differ) > 0 {
			t.Errorf("%s: verify finds differences: %v", encoding, differ)
		}
	}
	return worlds
}

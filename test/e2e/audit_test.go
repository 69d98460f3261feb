package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/sinks"
	"kubecdc/test/kafkatopics"
	"kubecdc/test/servers"
)

// Somebody changes an object while the exporter is killed each time audit events are durable and the API server does not know it.
// No event is lost, and none is there twice.
func TestAuditEventsOfTheWebhookAreWrittenOnce(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		auditWrittenOnce(t, newProxiedWorld(t, "sqlite"), false)
	})
	t.Run("two replicas, kafka", func(t *testing.T) {
		t.Parallel()
		w := newProxiedWorld(t, "kafka")
		auditWrittenOnce(t, w, true)
		ids, topic := map[string]int{}, kafkatopics.These(change.AuditTopic(w.logs[0].Prefix))
		_, err := kafkatopics.Reading{Brokers: w.logs[0].Kafka.Brokers, Wanted: topic}.Read(t.Context(), func(r *kgo.Record) error {
			for _, h := range r.Headers {
				ids[h.Key+" "+string(h.Value)]++
			}
			return nil
		})
		must(t, err)
		for id, n := range ids {
			if n != 1 {
				t.Errorf("%s was written %d times", id, n)
			}
		}
		if len(ids) == 0 {
			t.Error("the topic is empty")
		}
	})
}

// auditWrittenOnce makes the API server send events again, to another replica that has been running all the time, or to a new
// exporter.
func auditWrittenOnce(t *testing.T, w *whoWorld, replicas bool) {
	t.Helper()
	var other *Exporter
	if replicas {
		other = w.startOne(t, "the other replica")
	}
	maps := w.alice().CoreV1().ConfigMaps("default")
	want := map[string]int{}
	write := func(from, to int) {
		for i := from; i < to; i++ {
			name := fmt.Sprint("cm-", i)
			_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{FieldManager: "test"})
			must(t, err)
			_, err = maps.Patch(t.Context(), name, types.MergePatchType, []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{FieldManager: "test"})
			must(t, err)
			want["create "+name], want["patch "+name] = 1, 1
		}
	}
	var log sinks.Reader
	found := func() map[string]int { // how often each request is in the log
		counts := map[string]int{}
		for _, r := range auditRecords(t, log, audit.Query{}) {
			if r.User != "alice" {
				continue
			}
			counts[r.Verb+" "+r.Name]++
			if r.Resource != "configmaps" || r.Namespace != "default" || r.Manager != "test" || len(r.Addresses) == 0 || r.UserAgent == "" {
				t.Errorf("record %+v", r)
			}
		}
		return counts
	}
	for round := range 3 {
		e := w.startOne(t, fmt.Sprint("killed ", round), "KUBECDC_FAILPOINT", failpoint.AuditWritten+":1")
		write(round*20, round*20+20)
		if code := e.Wait(t); code != -1 {
			t.Fatalf("the exporter was not killed but exited with %d:\n%s", code, e.Tail(2000))
		}
		if log = w.logs[0].open(t); replicas {
			w.proxy.Retarget(other.Listen)
			Await(t, "the other replica to take what was sent again", func() (bool, error) { return len(found()) == len(want), nil })
		}
	}
	if !replicas {
		w.startOne(t, "the last")
	}
	Await(t, "all audit events", func() (bool, error) { return len(found()) == len(want), nil })
	for event, n := range found() {
		if n != 1 || want[event] != 1 {
			t.Errorf("%s is there %d times, want %d", event, n, want[event])
		}
	}
}

// While the sink is away, the webhook gets an error as its answer, and changes go into the spool. Events in a file wait for the
// sink.
func TestSlowAuditEventsWhileChangesGoIntoASpool(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t)
	lane := w.Kafka.Lane(t)
	folder := &whoWorld{dir: t.TempDir()}
	file := filepath.Join(folder.dir, "events")
	writer := w.Writer(t, []Kind{ConfigMaps})
	e := StartExporter(t, "the exporter", ownSpool(t, w.With("KUBECDC_RESOURCES", ConfigMaps.ID(), "KUBECDC_KAFKA_BROKERS", lane.Address,
		"KUBECDC_AUDIT_TOKEN_FILE", folder.write(t, "token", []byte(auditToken)), "KUBECDC_AUDIT_FILES", file))).AwaitReady(t)
	w.AwaitComplete(t, writer, writer.kinds)
	event := func(id string) string {
		now := time.Now().UTC().Format(time.RFC3339Nano)
		return `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"` + id + `","stage":"ResponseComplete","verb":"create",` +
			`"requestReceivedTimestamp":"` + now + `","stageTimestamp":"` + now + `","user":{"username":"alice"},"responseStatus":{"code":201},` +
			`"objectRef":{"resource":"configmaps","namespace":"default","name":"` + id + `","apiVersion":"v1"}}`
	}
	send := func(id string) int {
		status, err := postEvents("http://"+e.Listen+"/audit", auditToken, event(id))
		must(t, err)
		return status
	}
	Await(t, "an event to be taken", func() (bool, error) { return send("before") == http.StatusOK, nil })
	lane.Cut()
	writer.Run(20)
	e.awaitLogged(t, "the sink does not take batches: they go into the spool")
	if code := send("during"); code != http.StatusServiceUnavailable {
		t.Errorf("while the sink is away, the answer is %d", code)
	}
	must(t, os.WriteFile(file, []byte(event("in-a-file")+"\n"), 0o600))
	must(t, lane.Restore())
	Judge(t, w.Kube, w.AwaitComplete(t, writer, writer.kinds), w.Prefix, writer.kinds).Demand(t, 0)
	Await(t, "the event of the file to be in the topic", func() (bool, error) {
		found := false
		_, err := kafkatopics.Reading{Brokers: w.Kafka.Brokers, Wanted: kafkatopics.These(w.Prefix + ".audit")}.Read(t.Context(), func(r *kgo.Record) error {
			found = found || strings.Contains(string(r.Value), "in-a-file")
			return nil
		})
		return found, err
	})
}

// The endpoint accepts nothing from a sender without the token, and reads not a byte of the body.
func TestTheAuditEndpointNeedsItsToken(t *testing.T) {
	t.Parallel()
	e := newProxiedWorld(t, "sqlite").startOne(t, "the exporter")
	for token, want := range map[string]int{"": 401, "another token": 401, auditToken: 200} {
		Await(t, fmt.Sprintf("the answer %d to the token %q", want, token), func() (bool, error) {
			status, err := postEvents("https://"+e.Listen+"/audit", token, "")
			if err != nil {
				return false, nil // it does not listen yet
			}
			if status != want && status != http.StatusServiceUnavailable { // the log is not open yet
				t.Fatalf("with the token %q the answer is %d, want %d", token, status, want)
			}
			return status == want, nil
		})
	}
}

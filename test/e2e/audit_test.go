package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/sinks/postgres"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/kafkatopics"
	"kubecdc/test/servers"
)

// auditWorld is an API server whose webhook reaches an exporter through a proxy, and the exporter's settings.
type auditWorld struct {
	kube  *servers.Kubernetes
	proxy *servers.Proxy
	file  string
	env   map[string]string
	read  func(t *testing.T) sinks.ReadCloser // opens the log for reading
}

// inKafka lets the log be in Kafka.
func (w *auditWorld) inKafka(t *testing.T) (topic kafkatopics.Wanted, brokers []string) {
	t.Helper()
	brokers = servers.SharedKafka(t).Brokers
	prefix := fmt.Sprint("audit", time.Now().UnixNano())
	w.env["KUBECDC_SINK"], w.env["KUBECDC_KAFKA_BROKERS"], w.env["KUBECDC_KAFKA_TOPIC_PREFIX"] = "kafka", strings.Join(brokers, ","), prefix
	w.read = func(t *testing.T) sinks.ReadCloser {
		r, err := kafka.OpenReader(t.Context(), kafka.Config{Brokers: brokers, TopicPrefix: prefix, Cluster: "e2e"})
		must(t, err)
		return r
	}
	return kafkatopics.These(change.AuditTopic(prefix)), brokers
}

// inPostgres lets the log and the checkpoint be in Postgres, for several replicas.
func (w *auditWorld) inPostgres(t *testing.T) {
	t.Helper()
	url := postgresWorld(t, w.kube, servers.PostgresOptions{}).Postgres.URL
	w.env["KUBECDC_SINK"], w.env["KUBECDC_SINK_POSTGRES"], w.env["KUBECDC_CHECKPOINT"] = "postgres", url, url
	w.read = func(t *testing.T) sinks.ReadCloser {
		r, err := postgres.OpenReader(t.Context(), postgres.Config{URL: url, Cluster: "e2e"})
		must(t, err)
		return r
	}
}

func newAuditWorld(t *testing.T) *auditWorld {
	t.Helper()
	w := &auditWorld{file: filepath.Join(t.TempDir(), "log.db")}
	w.read = func(t *testing.T) sinks.ReadCloser { return w.reader(t) }
	var err error
	w.proxy, err = servers.NewProxy("127.0.0.1:1")
	must(t, err)
	t.Cleanup(w.proxy.Close)
	w.kube, err = servers.StartKubernetes(context.Background(), servers.KubernetesOptions{
		Users: []servers.User{{Name: "alice", Token: "alice's", Groups: []string{"system:masters"}}},
		Audit: &servers.AuditOptions{Level: "Metadata", Webhook: "https://" + w.proxy.Address + "/audit", Token: auditToken}})
	must(t, err)
	t.Cleanup(func() { _ = w.kube.Stop() })
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	must(t, err)
	file := func(name string, content []byte) string {
		path := filepath.Join(filepath.Dir(w.file), name)
		must(t, os.WriteFile(path, content, 0o600))
		return path
	}
	w.env = map[string]string{"KUBECONFIG": w.kube.Kubeconfig, "KUBECDC_CLUSTER": "e2e", "KUBECDC_RESOURCES": "configmaps",
		"KUBECDC_CHECKPOINT": "sqlite:" + w.file, "KUBECDC_AUDIT_TOKEN_FILE": file("token", []byte(auditToken+"\n")),
		"KUBECDC_HTTP_TLS_CERT": file("tls.crt", certPEM), "KUBECDC_HTTP_TLS_KEY": file("tls.key", keyPEM)}
	return w
}

// start starts an exporter that the webhook reaches.
func (w *auditWorld) start(t *testing.T, name string, more ...string) *Exporter {
	t.Helper()
	e := StartExporter(t, name, (&World{Env: w.env}).With(more...))
	w.proxy.Retarget(e.Listen)
	w.proxy.Drop()
	return e
}

func (w *auditWorld) reader(t *testing.T) *sqlite.Reader {
	t.Helper()
	var r *sqlite.Reader
	Await(t, "the exporter to make its file", func() (bool, error) {
		file, err := sqlitefile.Share(t.Context(), w.file)
		if err == nil {
			if r, err = sqlite.NewReader(t.Context(), file, "e2e"); err != nil {
				file.Close()
			}
		}
		return err == nil, nil
	})
	return r
}

// audits returns the number of alice's records in the log, by verb and name.
func (w *auditWorld) audits(t *testing.T) map[string]int {
	t.Helper()
	r := w.read(t)
	defer r.Close()
	found := map[string]int{}
	_, err := r.Audits(t.Context(), audit.Query{}, func(r *audit.Record) error {
		if r.User != "alice" {
			return nil
		}
		found[r.Verb+" "+r.Name]++
		if r.Resource != "configmaps" || r.Namespace != "default" || r.Manager != "test" || len(r.Addresses) == 0 || r.UserAgent == "" {
			t.Errorf("record %+v", r)
		}
		return nil
	})
	must(t, err)
	return found
}

// Somebody changes an object while the exporter is killed each time audit events are durable and the API server does not know it.
// No event is lost, and none is there twice.
func TestAuditEventsOfTheWebhookAreWrittenOnce(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		auditWrittenOnce(t, newAuditWorld(t), false)
	})
	t.Run("two replicas, kafka", func(t *testing.T) {
		t.Parallel()
		w := newAuditWorld(t)
		w.inPostgres(t)
		topic, brokers := w.inKafka(t)
		auditWrittenOnce(t, w, true)
		ids := map[string]int{}
		_, err := kafkatopics.Reading{Brokers: brokers, Wanted: topic}.Read(t.Context(), func(r *kgo.Record) error {
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
func auditWrittenOnce(t *testing.T, w *auditWorld, replicas bool) {
	t.Helper()
	var other *Exporter
	if replicas {
		other = w.start(t, "the other replica")
	}
	client, err := kubernetes.NewForConfig(w.kube.UserConfig(w.kube.Address, "alice's"))
	must(t, err)
	maps := client.CoreV1().ConfigMaps("default")
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
	for round := range 3 {
		e := w.start(t, fmt.Sprint("killed ", round), "KUBECDC_FAILPOINT", failpoint.AuditWritten+":1")
		write(round*20, round*20+20)
		if code := e.Wait(t); code != -1 {
			t.Fatalf("the exporter was not killed but exited with %d:\n%s", code, e.Tail(2000))
		}
		if replicas {
			w.proxy.Retarget(other.Listen)
			Await(t, "the other replica to take what was sent again", func() (bool, error) { return len(w.audits(t)) == len(want), nil })
		}
	}
	if !replicas {
		w.start(t, "the last")
	}
	Await(t, "all audit events", func() (bool, error) { return len(w.audits(t)) == len(want), nil })
	for event, n := range w.audits(t) {
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
	folder := t.TempDir()
	token, file := filepath.Join(folder, "token"), filepath.Join(folder, "events")
	must(t, os.WriteFile(token, []byte(auditToken), 0o600))
	writer := w.Writer(t, []Kind{ConfigMaps})
	e := StartExporter(t, "the exporter", ownSpool(t, w.With("KUBECDC_RESOURCES", ConfigMaps.ID(), "KUBECDC_KAFKA_BROKERS", lane.Address,
		"KUBECDC_AUDIT_TOKEN_FILE", token, "KUBECDC_AUDIT_FILES", file)))
	e.AwaitReady(t)
	w.AwaitComplete(t, writer, writer.kinds)
	event := func(id string) string {
		now := time.Now().UTC().Format(time.RFC3339Nano)
		return `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"` + id + `","stage":"ResponseComplete","verb":"create",` +
			`"requestReceivedTimestamp":"` + now + `","stageTimestamp":"` + now + `","user":{"username":"alice"},"responseStatus":{"code":201},` +
			`"objectRef":{"resource":"configmaps","namespace":"default","name":"` + id + `","apiVersion":"v1"}}`
	}
	send := func(id string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+e.Listen+"/audit", strings.NewReader(`{"items":[`+event(id)+`]}`))
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+auditToken)
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		answer.Body.Close()
		return answer.StatusCode
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
	w := newAuditWorld(t)
	e := w.start(t, "the exporter")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for token, want := range map[string]int{"": 401, "another token": 401, auditToken: 200} {
		Await(t, fmt.Sprintf("the answer %d to the token %q", want, token), func() (bool, error) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+e.Listen+"/audit", strings.NewReader(`{"items":[]}`))
			must(t, err)
			r.Header.Set("Authorization", "Bearer "+token)
			answer, err := client.Do(r)
			if err != nil {
				return false, nil // it does not listen yet
			}
			answer.Body.Close()
			if answer.StatusCode != want && answer.StatusCode != http.StatusServiceUnavailable { // the log is not open yet
				t.Fatalf("with the token %q the answer is %s, want %d", token, answer.Status, want)
			}
			return answer.StatusCode == want, nil
		})
	}
}

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/sinks/postgres"
	"kubecdc/test/auditpolicy"
	"kubecdc/test/child"
	"kubecdc/test/servers"
)

// whoWorld is an API server whose audit events go to a file, and to a courier or, through a proxy, to an exporter.
type whoWorld struct {
	marker  *Writer
	kube    *servers.Kubernetes
	dir     string
	events  string // the API server's audit log
	courier *courier
	proxy   *servers.Proxy
	logs    []*whoLog
}

// whoLog is a log and the exporter that writes it.
type whoLog struct {
	name string
	*World
	exporter *Exporter
}

const auditToken = "the token of the webhook"

var whoKinds = []Kind{ConfigMaps, Deployments, Widgets, Pods}

// newWhoWorld returns a world with a courier, and with logs of these kinds: sqlite, postgres, kafka.
func newWhoWorld(t *testing.T, seed uint64, level string, logs ...string) *whoWorld {
	t.Helper()
	courier := newCourier(t, seed)
	w := startWhoWorld(t, &servers.AuditOptions{Level: level, Webhook: courier.URL}, whoKinds, logs...)
	w.courier = courier
	InstallWidgets(t, w.kube.Config)
	client := kubernetes.NewForConfigOrDie(w.kube.Config)
	for _, name := range whoNamespaces[1:] {
		_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(t, err)
	}
	for _, l := range w.logs {
		l.Env["KUBECDC_AUDIT_FILES"] = filepath.Join(w.dir, "shipped*.log")
	}
	return w
}

// newProxiedWorld returns a world with one log and a proxy, which takes the API server's events by TLS.
func newProxiedWorld(t *testing.T, log string) *whoWorld {
	t.Helper()
	proxy, err := servers.NewProxy("127.0.0.1:1")
	must(t, err)
	t.Cleanup(proxy.Close)
	w := startWhoWorld(t, &servers.AuditOptions{Level: "Metadata", Webhook: "https://" + proxy.Address + "/audit", Token: auditToken},
		[]Kind{ConfigMaps, Deployments, Pods}, log)
	w.proxy = proxy
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	must(t, err)
	w.logs[0].Env["KUBECDC_HTTP_TLS_CERT"] = w.write(t, "tls.crt", certPEM)
	w.logs[0].Env["KUBECDC_HTTP_TLS_KEY"] = w.write(t, "tls.key", keyPEM)
	return w
}

func startWhoWorld(t *testing.T, options *servers.AuditOptions, kinds []Kind, logs ...string) *whoWorld {
	t.Helper()
	w := &whoWorld{dir: t.TempDir()}
	w.events = filepath.Join(w.dir, "events")
	options.File = w.events
	var err error
	w.kube, err = servers.StartKubernetes(context.Background(), servers.KubernetesOptions{Users: writerUsers(), Audit: options})
	must(t, err)
	t.Cleanup(func() { _ = w.kube.Stop() })
	for _, name := range logs {
		l := &whoLog{name, w.newLog(t, name), nil}
		l.Env["KUBECDC_RESOURCES"], l.Env["KUBECDC_AUDIT_TOKEN_FILE"] = Resources(kinds), w.write(t, "token", []byte(auditToken+"\n"))
		w.logs = append(w.logs, l)
	}
	return w
}

// write writes a file, and returns its path.
func (w *whoWorld) write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(w.dir, name)
	must(t, os.WriteFile(path, content, 0o600))
	return path
}

func (w *whoWorld) newLog(t *testing.T, name string) *World {
	t.Helper()
	if name == "sqlite" {
		world := &World{Prefix: "e2e", Kube: w.kube, File: filepath.Join(w.dir, "log.db")}
		world.Env = map[string]string{"KUBECONFIG": w.kube.Kubeconfig, "KUBECDC_CLUSTER": "e2e", "KUBECDC_SINK": "sqlite",
			"KUBECDC_CHECKPOINT": "sqlite:" + world.File, "KUBECDC_WATERMARK_INTERVAL": "1s"}
		return world
	}
	world := postgresWorld(t, w.kube, servers.PostgresOptions{})
	if name == "kafka" {
		world = world.toTopics(servers.SharedKafka(t), servers.UniqueName())
	}
	return world
}

// startOne starts an exporter that the webhook reaches.
func (w *whoWorld) startOne(t *testing.T, name string, more ...string) *Exporter {
	t.Helper()
	e := StartExporter(t, name, w.logs[0].With(more...))
	w.proxy.Retarget(e.Listen)
	w.proxy.Drop()
	return e
}

// alice returns a client of alice's.
func (w *whoWorld) alice() kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(w.kube.UserConfig(w.kube.Address, "token-of-alice"))
}

// start starts the exporters. From now on the courier brings them events.
func (w *whoWorld) start(t *testing.T) {
	t.Helper()
	for _, l := range w.logs {
		l.exporter = StartExporter(t, "the exporter to "+l.name, l.Env)
	}
	for _, l := range w.logs {
		l.exporter.AwaitReady(t)
		w.courier.bringTo("http://" + l.exporter.Listen + "/audit")
	}
}

// miss stops the exporters while something is written. Then the history of its first half is compacted, and the API server forgets
// what it still had in memory.
func (w *whoWorld) miss(t *testing.T, write func()) {
	t.Helper()
	w.awaitComplete(t)
	w.courier.bringToNobody()
	for _, l := range w.logs {
		l.exporter.stop(t)
	}
	began, err := w.kube.Revision(t.Context())
	must(t, err)
	write()
	ended, err := w.kube.Revision(t.Context())
	must(t, err)
	must(t, w.kube.Compact(t.Context(), (began+ended)/2))
	must(t, w.kube.RestartAPIServer(t.Context()))
	w.start(t)
}

// awaitComplete waits until the logs have every change.
func (w *whoWorld) awaitComplete(t *testing.T) {
	t.Helper()
	if w.marker == nil {
		w.marker = NewWriter(t, w.kube.Config, 1, nil)
	}
	for id, version := range w.marker.Marks(whoKinds) {
		for _, l := range w.logs {
			stream := change.ParseStream(id)
			stream = change.NewStream(stream.Resource, "", l.Env["KUBECDC_LABEL_SELECTOR"], "")
			l.AwaitMarks(t, map[change.StreamID]change.ResourceVersion{stream.ID(): version})
		}
	}
}

// open opens the log for reading.
func (l *whoLog) open(t *testing.T) (r sinks.ReadCloser) {
	t.Helper()
	if l.File != "" {
		Await(t, "the exporter to make its file", func() (bool, error) {
			file := l.openFile(t)
			r = file
			return file != nil, nil
		})
		return r
	}
	var err error
	if l.Kafka != nil {
		r, err = kafka.OpenReader(t.Context(), kafka.Config{Brokers: l.Kafka.Brokers, TopicPrefix: l.Prefix, Cluster: "e2e"})
	} else {
		r, err = postgres.OpenReader(t.Context(), postgres.Config{URL: l.Postgres.URL, Cluster: "e2e"})
	}
	must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// awaitRecord waits until the logs have the audit record of an object.
func (w *whoWorld) awaitRecord(t *testing.T, name string) {
	t.Helper()
	for _, l := range w.logs {
		r := l.open(t)
		Await(t, "the audit record of "+name+" in "+l.name, func() (bool, error) {
			return slices.ContainsFunc(auditRecords(t, r, audit.Query{Name: name}), func(r *audit.Record) bool { return r.Name == name }), nil
		})
	}
}

// auditRecords returns copies of the records in a log.
func auditRecords(t *testing.T, log sinks.Reader, q audit.Query) (all []*audit.Record) {
	t.Helper()
	_, err := log.Audits(t.Context(), q, func(r *audit.Record) error {
		text, err := json.Marshal(r)
		must(t, err)
		all = append(all, &audit.Record{})
		return json.Unmarshal(text, all[len(all)-1])
	})
	must(t, err)
	return all
}

// installPolicy installs the policy that annotates events with the object and its version, and waits until it is in force.
func (w *whoWorld) installPolicy(t *testing.T) {
	t.Helper()
	must(t, auditpolicy.Create(t.Context(), w.kube.Config))
	Await(t, "the policy to be in force", func() (bool, error) {
		name := w.probe(t)
		for _, e := range w.read(t) {
			if e.name == name {
				return e.annotated, nil
			}
		}
		return false, fmt.Errorf("the audit log has no event of %s", name)
	})
}

// probe creates an object that is not judged, and returns its name.
func (w *whoWorld) probe(t *testing.T) string {
	t.Helper()
	name := servers.UniqueName()
	_, err := kubernetes.NewForConfigOrDie(w.kube.Config).CoreV1().ConfigMaps("kube-public").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	return name
}

// startControllers runs controllers of kube-controller-manager, each as its own service account. test/controllers has the binary.
func startControllers(t *testing.T, kube *servers.Kubernetes, binary string, names ...string) {
	t.Helper()
	running, err := child.Start(exec.Command(binary, "--kubeconfig="+kube.Kubeconfig, "--controllers="+strings.Join(names, ","),
		"--use-service-account-credentials", "--leader-elect=false", "--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=400"))
	must(t, err)
	t.Cleanup(running.Kill)
}

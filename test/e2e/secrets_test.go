package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/test/servers"
)

const theCanary = Canary("canary-Rk3xV8pQ2") + "w9" // 18 bytes

// vault writes Secrets that hold the canary wherever kubectl apply puts it, and ConfigMaps that hold it as well.
type vault struct {
	t      testing.TB
	api    kubernetes.Interface
	uid    string // the cluster's uid
	writes int
}

func newVault(t testing.TB, k *servers.Kubernetes) *vault {
	v := &vault{t: t, api: kubernetes.NewForConfigOrDie(k.Config)}
	system, err := v.api.CoreV1().Namespaces().Get(context.Background(), "kube-system", metav1.GetOptions{})
	must(t, err)
	v.uid = string(system.UID)
	return v
}

// put creates or updates a Secret with more further keys. One value is always the same, the others are new each time.
func (v *vault) put(name string, more int) (version string) {
	v.t.Helper()
	v.writes++
	data := map[string][]byte{"stays": []byte(theCanary)}
	for i := range more + 1 {
		data[fmt.Sprintf("rotates-%d", i)] = fmt.Appendf(nil, "%s-%04d", theCanary, v.writes)
	}
	meta := metav1.ObjectMeta{Name: name, Namespace: "default", Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: fmt.Sprintf(
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q},"data":{"stays":%q},"stringData":{"text":%q}}`, name, theCanary.Base64(), theCanary)}}
	s := &corev1.Secret{ObjectMeta: meta, Data: data, StringData: map[string]string{"text": string(theCanary)}}
	got, err := v.api.CoreV1().Secrets("default").Create(context.Background(), s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		got, err = v.api.CoreV1().Secrets("default").Update(context.Background(), s, metav1.UpdateOptions{})
	}
	must(v.t, err)
	return got.ResourceVersion
}

func (v *vault) delete(name string) {
	v.t.Helper()
	must(v.t, v.api.CoreV1().Secrets("default").Delete(context.Background(), name, metav1.DeleteOptions{}))
}

// config puts a ConfigMap. Its value of the key password is the canary, and no other value is.
func (v *vault) config(name string) {
	v.t.Helper()
	v.writes++
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Data: map[string]string{"password": string(theCanary), "n": fmt.Sprint(v.writes)}}
	_, err := v.api.CoreV1().ConfigMaps("default").Create(context.Background(), c, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = v.api.CoreV1().ConfigMaps("default").Update(context.Background(), c, metav1.UpdateOptions{})
	}
	must(v.t, err)
}

// await waits for a matching record of an object that has a value, and returns the last one. It may call try several times.
func (w *World) await(t testing.TB, kind Kind, name string, what string, matches func(Record) bool, try ...func()) (found Record) {
	t.Helper()
	Await(t, what, func() (bool, error) {
		for _, do := range try {
			do()
		}
		for _, r := range w.Read(t).ByKey(w.Prefix, kind)["default/"+name] {
			if r.Op != "" && matches(r) {
				found = r
				return true, nil
			}
		}
		return false, nil
	})
	return found
}

func (w *World) awaitVersion(t testing.TB, name, version string) Record {
	t.Helper()
	return w.await(t, Secrets, name, "Secret "+name+" at "+version, func(r Record) bool { return string(r.Version) == version })
}

func (e *Exporter) stop(t testing.TB) {
	t.Helper()
	e.Signal(syscall.SIGTERM)
	if code := e.Wait(t); code != 0 {
		t.Fatalf("after SIGTERM %s ends with %d:\n%s", e.name, code, e.Tail(2000))
	}
}

func dataOf(t testing.TB, raw json.RawMessage) map[string]string {
	t.Helper()
	var o struct{ Data map[string]string }
	must(t, json.Unmarshal(raw, &o))
	return o.Data
}

// A Secret's content is only in the cluster. With * it is not exported, and if Secrets are named only hashes are. This holds for
// topics (dead letters and aborted records too), checkpoint, log and metrics. After a change from plain to a stricter rule no new
// record has it, nor has the checkpoint.
func TestSecretsAreNotExported(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	delete(w.Env, "KUBECDC_SECRETS")
	v := newVault(t, w.Kube)
	v.put("old", 0)
	t.Run("a wildcard takes none", func(t *testing.T) { wildcardTakesNone(t, w.sibling(t, "star"), v) })
	t.Run("named, as hashes", func(t *testing.T) { asHashes(t, w.sibling(t, "hash"), v) })
	for _, mode := range []string{"hash", "metadata"} {
		t.Run("from plain to "+mode, func(t *testing.T) { fromPlain(t, w.sibling(t, "to-"+mode), v, mode) })
	}
}

// sibling returns the same world for another exporter, with its own topics, checkpoint and cluster name.
func (w *World) sibling(t testing.TB, name string) *World {
	t.Helper()
	url, err := w.Postgres.CreateDatabase(context.Background(), strings.ReplaceAll(name, "-", "_"))
	must(t, err)
	other := *w
	other.Prefix = w.Prefix + "-" + name
	other.Env = w.With("KUBECDC_CLUSTER", name, "KUBECDC_KAFKA_TOPIC_PREFIX", other.Prefix, "KUBECDC_CHECKPOINT", url,
		"KUBECDC_RESOURCES", "configmaps,secrets", "KUBECDC_REDACT", "configmaps:data.password")
	return &other
}

// wantHidden demands that nothing that an exporter leaves has the canary.
func (w *World) wantHidden(t testing.TB, v *vault, e *Exporter) {
	t.Helper()
	all, _ := Topics(t, w.Kafka.Brokers, w.Prefix, nil)
	theCanary.Demand(t, "the topics", false, all)
	w.wantStoredHidden(t, v)
	theCanary.Demand(t, "what the exporter says", false, e.Said(t))
}

func (w *World) wantStoredHidden(t testing.TB, v *vault) {
	t.Helper()
	url := w.Env["KUBECDC_CHECKPOINT"]
	theCanary.Demand(t, "the checkpoint's tables", false, Tables(t, url))
	theCanary.Demand(t, "the checkpoint's bodies", false, Bodies(t, url, w.Env["KUBECDC_CLUSTER"], v.uid, "secrets"))
}

func wildcardTakesNone(t *testing.T, w *World, v *vault) {
	e := StartExporter(t, "with a wildcard", w.With("KUBECDC_RESOURCES", "*,!leases.coordination.k8s.io")).AwaitReady(t)
	v.put("wild", 0)
	v.config("wild")
	got := w.await(t, ConfigMaps, "wild", "the ConfigMap", func(Record) bool { return true })
	if d := dataOf(t, got.After); !strings.HasPrefix(d["password"], "hmac-sha256:") || d["n"] == "" {
		t.Errorf("the ConfigMap holds %s", got.After)
	}
	for _, r := range w.Read(t).Records {
		if id := r.Resource(w.Prefix); id == "secrets" || id == "leases.coordination.k8s.io" {
			t.Fatalf("there is a record of %s", id)
		}
	}
	w.wantHidden(t, v, e)
	e.stop(t)
	w.wantChecked(t, map[string]string{"KUBECDC_RESOURCES": "*,!lease.coordination.k8s.io", "KUBECDC_REDACT": "configmap:data.password"},
		"Secrets: not exported", `KUBECDC_RESOURCES: "lease.coordination.k8s.io" has no effect`, `KUBECDC_REDACT: "configmap" has no effect`, "did you mean configmaps?")
	w.wantChecked(t, map[string]string{"KUBECDC_RESOURCES": "*,secrets"}, "Secrets: exported as hash")
}

// wantChecked runs exporter check, and demands these texts.
func (w *World) wantChecked(t *testing.T, env map[string]string, want ...string) {
	t.Helper()
	code, out := command(t, w.With(flat(env)...), "check")
	if code != 0 {
		t.Errorf("exporter check ends with %d", code)
	}
	for _, text := range want {
		if !strings.Contains(out, text) {
			t.Errorf("exporter check does not say %q:\n%s", text, out)
		}
	}
}

func asHashes(t *testing.T, w *World, v *vault) {
	env := w.With("KUBECDC_KAFKA_MAX_MESSAGE_BYTES", "10KiB")
	e := StartExporter(t, "with hashes", env).AwaitReady(t)
	w.await(t, Secrets, "old", "the snapshot", func(r Record) bool { return r.Op == "r" })
	created := w.awaitVersion(t, "live", v.put("live", 0))
	rotated := w.awaitVersion(t, "live", v.put("live", 0))
	v.delete("live")
	deleted := w.await(t, Secrets, "live", "the deletion", func(r Record) bool { return r.Op == "d" })
	was, now := dataOf(t, rotated.Before), dataOf(t, rotated.After)
	if was["rotates-0"] == now["rotates-0"] || was["stays"] != now["stays"] || was["stays"] != was["text"] && was["text"] == "" || string(rotated.Before) != string(created.After) || string(deleted.Before) != string(rotated.After) {
		t.Errorf("rotated from %s to %s, deleted as %s", rotated.Before, rotated.After, deleted.Before)
	}
	large := w.awaitVersion(t, "large", v.put("large", 800))
	if len(w.Read(t).Dead) == 0 || !strings.Contains(string(large.After), "kubecdc/dead-letter") {
		t.Errorf("no dead letter of a large Secret: %.300s", large.After)
	}
	w.wantHidden(t, v, e)
	e.stop(t)

	v.put("gap", 0)
	v.delete("gap")
	last := v.put("old", 0)
	must(t, w.Kube.RestartAPIServer(context.Background()))
	e = StartExporter(t, "after a gap", env)
	w.awaitVersion(t, "old", last)
	w.await(t, Secrets, "gap", "what lived and died unseen", func(r Record) bool { return r.Op == "d" })
	w.wantHidden(t, v, e)
	e.stop(t)
}

// fromPlain also proves that the canary is found where it is.
func fromPlain(t *testing.T, w *World, v *vault, mode string) {
	name := "switched-" + mode
	plain := w.With("KUBECDC_SECRETS", "plain")
	e := StartExporter(t, "in plain", plain).AwaitReady(t)
	w.awaitVersion(t, name, v.put(name, 0))
	w.awaitVersion(t, name+"-deleted", v.put(name+"-deleted", 0))
	e.stop(t)
	theCanary.Demand(t, "the checkpoint's tables", true, Tables(t, w.Env["KUBECDC_CHECKPOINT"]))
	last := v.put(name+"-tail", 0)
	w.await(t, Secrets, name+"-tail", "a tail: it is in the log, and not yet in the checkpoint", func(r Record) bool {
		return string(r.Version) == last
	}, func() { killedAt(t, plain, failpoint.Written+":1") }) // the first batch may have only positions
	before, end := Topics(t, w.Kafka.Brokers, w.Prefix, nil)
	theCanary.Demand(t, "the topics", true, before)

	strict := w.With("KUBECDC_SECRETS", mode)
	e = StartExporter(t, "in "+mode, strict).AwaitReady(t)
	w.wantStoredHidden(t, v)
	updated := w.awaitVersion(t, name, v.put(name, 0))
	v.delete(name + "-deleted")
	deleted := w.await(t, Secrets, name+"-deleted", "the deletion", func(r Record) bool { return r.Op == "d" })
	tail := w.awaitVersion(t, name+"-tail", v.put(name+"-tail", 0))
	for _, r := range []Record{updated, deleted, tail} {
		if !strings.Contains(string(r.Before), `"uid":"`+r.UID) {
			t.Errorf("%s of %s has the before %s", r.Op, r.Key, r.Before)
		}
	}
	if d := dataOf(t, updated.Before); mode == "hash" && (d["stays"] == "" || d["stays"] != dataOf(t, updated.After)["stays"]) {
		t.Errorf("what did not change has the hash %s before and %s after", d["stays"], dataOf(t, updated.After)["stays"])
	}
	after, _ := Topics(t, w.Kafka.Brokers, w.Prefix, end)
	theCanary.Demand(t, "a record after the change", false, after)
	theCanary.Demand(t, "what the exporter says", false, e.Said(t))
	e.awaitLogged(t, "the log keeps what was exported before", "docs/security.md")
	w.wantStoredHidden(t, v)
	e.stop(t)

	e = StartExporter(t, "without Secrets", w.With("KUBECDC_SECRETS", mode, "KUBECDC_RESOURCES", "configmaps")).AwaitReady(t)
	if stored := Bodies(t, w.Env["KUBECDC_CHECKPOINT"], w.Env["KUBECDC_CLUSTER"], v.uid, "secrets"); strings.Contains(string(stored), `"data"`) {
		t.Errorf("of Secrets that are not exported any more the checkpoint keeps %.400s", stored)
	}
	e.stop(t)
}

// The same holds with an SQLite file and a pipe. After the change nothing in the file has the content, not even the place of
// deleted rows.
func TestSlowSecretsAreNotInThePipeNorInTheFile(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	k := servers.Lend(t)
	v := newVault(t, k)
	path := filepath.Join(t.TempDir(), "c.db")
	env := map[string]string{"KUBECONFIG": k.Kubeconfig, "KUBECDC_CLUSTER": "pipe", "KUBECDC_RESOURCES": "secrets", "KUBECDC_SINK": "stdout",
		"KUBECDC_CHECKPOINT": "sqlite:" + path, "KUBECDC_SECRETS": "plain"}
	v.put("a", 20)
	e := StartExporter(t, "in plain", env).AwaitReady(t)
	e.awaitLine(t, v.put("a", 30))
	e.awaitLine(t, v.put("b", 0))
	e.stop(t)
	theCanary.Demand(t, "the pipe", true, e.out.Bytes())
	theCanary.Demand(t, "the file", true, append(Files(t, path), FileBodies(t, path, "pipe", v.uid, "secrets")...))

	env["KUBECDC_SECRETS"] = "hash"
	e = StartExporter(t, "in hash", env).AwaitReady(t)
	e.awaitLine(t, v.put("a", 0))
	e.awaitLine(t, v.put("b", 0))
	theCanary.Demand(t, "the file", false, Files(t, path))
	theCanary.Demand(t, "what the exporter says", false, e.Said(t))
	e.stop(t)
	theCanary.Demand(t, "the file's bodies", false, FileBodies(t, path, "pipe", v.uid, "secrets"))
	log, _ := ParseLines(t, e.out.Bytes(), "pipe")
	for _, r := range log.Records {
		if r.Op == "u" && !strings.Contains(string(r.Before), "hmac-sha256:") {
			t.Errorf("the before of %s is %s", r.Key, r.Before)
		}
	}
}

// The embedded log retains what was exported before. A change after a stricter rule has a before-image without the content.
// Unchanged objects are not written again, though proofs compare them with the log.
func TestAStricterRuleWithAnEmbeddedLog(t *testing.T) {
	t.Parallel()
	w := NewFileWorld(t)
	v := newVault(t, w.Kube)
	w.Env["KUBECDC_RESOURCES"], w.Env["KUBECDC_PROOF_INTERVAL"] = "secrets", "1s"
	v.put("a", 0)
	e := StartExporter(t, "in plain", w.Env).AwaitReady(t)
	w.awaitVersion(t, "a", v.put("a", 0))
	still := v.put("b", 0)
	w.awaitVersion(t, "b", still)
	e.stop(t)

	e = StartExporter(t, "in hash", w.With("KUBECDC_SECRETS", "hash")).AwaitReady(t)
	changed := w.awaitVersion(t, "a", v.put("a", 0))
	if !strings.Contains(string(changed.Before), "hmac-sha256:") || strings.Contains(string(changed.Before), theCanary.Base64()) {
		t.Errorf("the state before is %s", changed.Before)
	}
	proofs := func() (n int) {
		for _, c := range w.fileControls(t) {
			if c.Type == change.ControlProof {
				n++
			}
		}
		return n
	}
	before := proofs()
	Await(t, "three proofs", func() (bool, error) { return proofs() >= before+3, nil })
	for _, r := range w.Read(t).ByKey(w.Prefix, Secrets)["default/b"] {
		if string(r.Version) != still || r.Op != "c" {
			t.Errorf("Secret b, which did not change, is written as %s at %s", r.Op, r.Version)
		}
	}
	theCanary.Demand(t, "what the exporter says", false, e.Said(t))
	e.stop(t)
}

func (e *Exporter) awaitLine(t testing.TB, version string) {
	t.Helper()
	Await(t, "the line of "+version, func() (bool, error) {
		log, _ := ParseLines(t, e.out.Bytes(), "pipe")
		for _, r := range log.Records {
			if string(r.Version) == version {
				return true, nil
			}
		}
		return false, nil
	})
}

// The Postgres sink's tables hold hashes, and an unreadable object is stored as its size.
func TestSlowSecretsAreNotInThePostgresSink(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewPostgresWorld(t, servers.PostgresOptions{})
	v := newVault(t, w.Kube)
	g := newGatewayOf(t, w.Kube, "secrets", `{"type":"ADDED","object":{"metadata":{},"data":{"a":"`+string(theCanary)+`"}}}`+"\n")
	v.put("a", 3)
	e := StartExporter(t, "with Postgres", w.With("KUBECONFIG", g.kubeconfig, "KUBECDC_SECRETS", "hash", "KUBECDC_RESOURCES", "secrets",
		"KUBECDC_SECRETS_KEY", "a key of this test alone")).AwaitReady(t)
	w.awaitVersion(t, "a", v.put("a", 2))
	v.delete("a")
	w.await(t, Secrets, "a", "the deletion", func(r Record) bool { return r.Op == "d" })
	all := Tables(t, w.Postgres.URL)
	theCanary.Demand(t, "the tables", false, all)
	theCanary.Demand(t, "what the exporter says", false, e.Said(t))
	if !strings.Contains(string(all), "is withheld since objects of this stream are redacted") {
		t.Error("the dead letter does not say that its content is withheld")
	}
	if strings.Contains(string(all)+string(e.Said(t)), "a key of this test alone") {
		t.Error("the key is in the log")
	}
	e.stop(t)
}

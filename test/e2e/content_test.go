package e2e

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/test/servers"
)

// configs writes ConfigMaps as the field manager "tester".
type configs struct {
	t   *testing.T
	api kubernetes.Interface
}

func (c *configs) create(name string, data map[string]string) {
	c.t.Helper()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Data: data}
	_, err := c.api.CoreV1().ConfigMaps("default").Create(context.Background(), o, metav1.CreateOptions{FieldManager: "tester"})
	must(c.t, err)
}

// set sets some of the data, and returns the version.
func (c *configs) set(name string, data map[string]string) string {
	c.t.Helper()
	o, err := c.api.CoreV1().ConfigMaps("default").Get(context.Background(), name, metav1.GetOptions{})
	must(c.t, err)
	for key, value := range data {
		o.Data[key] = value
	}
	o, err = c.api.CoreV1().ConfigMaps("default").Update(context.Background(), o, metav1.UpdateOptions{FieldManager: "tester"})
	must(c.t, err)
	return o.ResourceVersion
}

func (c *configs) delete(name string) {
	c.t.Helper()
	must(c.t, c.api.CoreV1().ConfigMaps("default").Delete(context.Background(), name, metav1.DeleteOptions{}))
}

// awaitConfig waits for a record of a ConfigMap.
func (w *World) awaitConfig(t *testing.T, name, version string) Record {
	t.Helper()
	return w.await(t, ConfigMaps, name, name+" at "+version, func(r Record) bool { return string(r.Version) == version })
}

func TestWhatRecordsHold(t *testing.T) {
	w, c := configsWorld(t)
	t.Run("ignored", func(t *testing.T) { ignored(t, w.sibling(t, "ignored"), c) })
	t.Run("no updates", func(t *testing.T) { noUpdates(t, w.sibling(t, "lifecycle"), c) })
}

func TestSlowWhatRecordsHold(t *testing.T) {
	servers.Slow(t)
	w, c := configsWorld(t)
	t.Run("too large", func(t *testing.T) { tooLarge(t, w.sibling(t, "large"), c) })
	t.Run("bodies", func(t *testing.T) { bodies(t, w.sibling(t, "bodies"), c) })
}

func configsWorld(t *testing.T) (*World, *configs) {
	t.Parallel()
	w := NewWorld(t)
	w.Env["KUBECDC_RESOURCES"] = "configmaps"
	api, err := kubernetes.NewForConfig(w.Kube.Config)
	must(t, err)
	return w, &configs{t, api}
}

// tooLarge demands that the chain of before-images is unbroken for objects that were too large for their topic. It holds over a
// restart, after kill -9, and with a rebuilt checkpoint.
func tooLarge(t *testing.T, w *World, c *configs) {
	env := w.With("KUBECDC_KAFKA_MAX_MESSAGE_BYTES", "20KiB", "KUBECDC_KAFKA_COMPRESSION", "none")
	noise := func(size int) map[string]string {
		raw := make([]byte, size/2)
		_, _ = rand.Read(raw)
		return map[string]string{"noise": hex.EncodeToString(raw)}
	}
	e := StartExporter(t, "an exporter", env).AwaitReady(t)
	c.create("grows", noise(100))
	for i, size := range []int{100, 30_000, 100, 30_000, 200, 40_000, 15_000, 100} {
		w.awaitConfig(t, "grows", c.set("grows", noise(size)))
		switch i {
		case 1:
			e.stop(t)
			e = StartExporter(t, "after a restart", env)
		case 3:
			e.Signal(syscall.SIGKILL)
			e.Wait(t)
			e = StartExporter(t, "after kill -9", env)
		case 5:
			e.stop(t)
			dropCheckpoint(t, w)
			e = StartExporter(t, "with a lost checkpoint", env)
		}
	}
	c.delete("grows")
	w.await(t, ConfigMaps, "grows", "the deletion", func(r Record) bool { return r.Op == "d" })
	stubs := wantRetractable(t, w, "grows")
	if stubs < 3 {
		t.Errorf("%d stubs", stubs)
	}
	e.stop(t)
	compareMirror(t, w)
}

// wantRetractable returns how many records have a stub after their change.
func wantRetractable(t *testing.T, w *World, name string) (stubs int) {
	t.Helper()
	last := "null"
	for _, r := range w.Read(t).ByKey(w.Prefix, ConfigMaps)["default/"+name] {
		if r.Op == "" {
			continue
		}
		if before := cmp.Or(string(r.Before), "null"); before != last {
			t.Errorf("%s at %s has before %.300s, and the log had %.300s", r.Op, r.Version, before, last)
		}
		if last = cmp.Or(string(r.After), "null"); change.IsStub(r.After) {
			stubs++
		}
	}
	return stubs
}

// ignored demands that ignored updates are not written, whether they are watched, found after a restart, or found by a list after a
// gap.
func ignored(t *testing.T, w *World, c *configs) {
	env := w.With("KUBECDC_IGNORE_FIELDS", "configmaps:data.beat", "KUBECDC_BACKFILL", "off", "KUBECDC_PROOF_INTERVAL", "1s")
	c.create("beats", map[string]string{"beat": "0", "n": "0"})
	e := StartExporter(t, "an exporter", env).AwaitReady(t)
	beats := 0
	beat := func(times int) {
		for range times {
			beats++
			c.set("beats", map[string]string{"beat": fmt.Sprint(beats)})
		}
	}
	counts := func(n string) Record { return w.awaitConfig(t, "beats", c.set("beats", map[string]string{"n": n})) }
	beat(3)
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // times of managers have a resolution of one second
	r := counts("1")
	if r.Provenance.Managers != "tester" || r.Provenance.FieldsChanged != "data.beat,data.n" || r.Provenance.TimeFrom == "" {
		t.Errorf("the update is recorded as %+v", r.Provenance)
	}
	if n := e.Metric(t, "kubecdc_ignored_updates_total", "configmaps"); n != 3 {
		t.Errorf("%v updates are counted as ignored, want 3", n)
	}
	beat(2)
	e.stop(t)
	beat(2)
	e = StartExporter(t, "after a restart", env)
	counts("2")
	beat(2)
	wantNoDifference(t, w, env)
	w.Kube.API.Kill()
	must(t, w.Kube.API.Start(context.Background()))
	counts("3")
	beat(1)
	e.stop(t)
	must(t, w.Kube.RestartAPIServer(context.Background()))
	dropCheckpoint(t, w)
	e = StartExporter(t, "with a lost checkpoint", env)
	wantNoDifference(t, w, env)
	counts("4")
	c.delete("beats")
	w.await(t, ConfigMaps, "beats", "the deletion", func(r Record) bool { return r.Op == "d" })
	wantRetractable(t, w, "beats")
	ops := ""
	for _, r := range w.Read(t).ByKey(w.Prefix, ConfigMaps)["default/beats"] {
		ops += r.Op
	}
	if ops != "ruuuud" {
		t.Errorf("the log has %s, want ruuuud", ops)
	}
	wantChain(t, env)
	e.stop(t)
}

// wantChain demands that no before-image makes a history say that the log lacks a change.
func wantChain(t *testing.T, env map[string]string) {
	t.Helper()
	if code, out := command(t, env, "history", "configmaps", "-A"); code != 0 || strings.Contains(out, "the log lacks") {
		t.Errorf("history ends with %d and prints %s", code, out)
	}
}

// wantNoDifference demands that neither verify, nor a proof, nor a snapshot takes ignored updates for a loss.
func wantNoDifference(t *testing.T, w *World, env map[string]string) {
	t.Helper()
	ignored := func() {
		t.Helper()
		Await(t, "an object whose updates are ignored", func() (bool, error) {
			code, out := command(t, env, "verify", "configmaps", "-o", "json")
			return code == 0 && strings.Contains(out, `"ignored": 1`), nil
		})
	}
	ignored()
	mustRun(t, env, "snapshot", "configmaps")
	ignored()
	w.awaitProof(t, ConfigMaps, change.ProofEqual, w.version(t))
	for _, c := range w.controls(t) {
		if c.Type == change.ControlProof && c.Stream == ConfigMaps.Stream() && (c.Proof.Result != change.ProofEqual || !c.Proof.Masked) {
			t.Errorf("a proof says %s: %s, masked: %v", c.Proof.Result, c.Proof, c.Proof.Masked)
		}
	}
}

// version returns the version of an object that was written just now.
func (w *World) version(t *testing.T) change.ResourceVersion {
	t.Helper()
	c, err := kubernetes.NewForConfig(w.Kube.Config)
	must(t, err)
	list, err := c.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	return change.ResourceVersion(list.ResourceVersion)
}

func noUpdates(t *testing.T, w *World, c *configs) {
	env := w.With("KUBECDC_OPS", "c,d,r", "KUBECDC_MANAGED_FIELDS", "drop", "KUBECDC_PROOF_INTERVAL", "1s")
	e := StartExporter(t, "an exporter", env).AwaitReady(t)
	c.create("lives", map[string]string{"n": "0"})
	c.set("lives", map[string]string{"n": "1"})
	wantNoDifference(t, w, env)
	e.stop(t)
	c.set("lives", map[string]string{"n": "2"})
	e = StartExporter(t, "after a restart", env).AwaitReady(t)
	c.delete("lives")
	w.await(t, ConfigMaps, "lives", "the deletion", func(r Record) bool { return r.Op == "d" })
	wantRetractable(t, w, "lives")
	ops := ""
	for _, r := range w.Read(t).ByKey(w.Prefix, ConfigMaps)["default/lives"] {
		ops += r.Op
		if bytes.Contains(append(r.Before, r.After...), []byte("managedFields")) {
			t.Errorf("%s at %s has managedFields", r.Op, r.Version)
		}
	}
	if ops != "cd" {
		t.Errorf("the log has %s, want cd", ops)
	}
	wantChain(t, env)
	e.stop(t)
}

// bodies demands that after KUBECDC_BEFORE=none the checkpoint gets the missing bodies, without a record. If one is then changed
// there, a proof corrects it once, and finds no other difference from the API server.
func bodies(t *testing.T, w *World, c *configs) {
	w.Env = w.With("KUBECDC_RESOURCES", "configmaps")
	e := StartExporter(t, "without before", w.With("KUBECDC_BEFORE", "none")).AwaitReady(t)
	c.create("kept", map[string]string{"n": "0"})
	w.await(t, ConfigMaps, "kept", "its creation", func(Record) bool { return true })
	e.stop(t)
	w.Env = w.With("KUBECDC_PROOF_INTERVAL", "1s")
	e = StartExporter(t, "with before", w.Env).AwaitReady(t)
	Await(t, "a snapshot that stores the bodies", func() (bool, error) {
		all := w.signals(t)
		return len(all) == 1 && all[0].State == change.SignalCompleted, nil
	})
	r := w.awaitConfig(t, "kept", c.set("kept", map[string]string{"n": "1"}))
	if !strings.Contains(string(r.Before), `"n":"0"`) {
		t.Errorf("the update comes with before %s", r.Before)
	}
	e.stop(t)

	wrong := checkpoint.Pack(bytes.Replace(r.After, []byte(`"n":"1"`), []byte(`"n":"wrong"`), 1)).Base
	servers.Exec(t, w.Env["KUBECDC_CHECKPOINT"], `update kubecdc.inventory set body = $1, delta = null where key = 'default/kept'`, wrong)
	e = StartExporter(t, "after the checkpoint was changed", w.With("KUBECDC_RESOURCES", "*")).AwaitReady(t)
	w.await(t, ConfigMaps, "kept", "a correction", func(r Record) bool { return r.Inferred })
	proofs := func() (n int) {
		for _, c := range w.controls(t) {
			if c.Type == change.ControlProof && c.Stream == ConfigMaps.Stream() {
				n++
			}
		}
		return n
	}
	for i, had := 0, proofs(); i < 5; i++ {
		Await(t, "more proofs", func() (bool, error) { return proofs() > had+i, nil })
	}
	all := w.Read(t).ByKey(w.Prefix, ConfigMaps)["default/kept"]
	last := all[len(all)-1]
	if len(all) != 3 || last.Op != "u" || last.Version != r.Version || !strings.Contains(string(last.Before), "wrong") ||
		!strings.Contains(string(last.After), `"n":"1"`) {
		t.Errorf("%d records, the last one is %s at %s: %s", len(all), last.Op, last.Version, last.After)
	}
	for _, c := range w.controls(t) {
		if c.Gap != nil && c.Gap.To == c.Gap.From && c.Stream != ConfigMaps.Stream() {
			t.Errorf("corrected: %+v", c.Gap)
		}
	}
	wantOnly(t, w.verified(t, 0))
	e.stop(t)
}

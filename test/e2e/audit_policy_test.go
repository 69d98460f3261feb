package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/test/auditpolicy"
	"kubecdc/test/servers"
)

// applyPolicy applies the policy, and waits until it is in force: create is a request whose event then has an annotation.
func (w *auditWorld) applyPolicy(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	must(t, auditpolicy.Create(t.Context(), w.kube.Config))
	n := 0
	Await(t, "the policy to be in force", func() (bool, error) {
		n++
		name := fmt.Sprint("probe-", n)
		_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(t, err)
		var uid string
		Await(t, "the audit event of "+name, func() (bool, error) {
			for _, r := range w.records(t) {
				if r.Name == name {
					uid = r.UID
					return true, nil
				}
			}
			return false, nil
		})
		return uid != "", nil
	})
}

// records returns alice's records in the log.
func (w *auditWorld) records(t *testing.T) (all []audit.Record) {
	t.Helper()
	r := w.reader(t)
	defer r.Close()
	_, err := r.Audits(t.Context(), audit.Query{}, func(r *audit.Record) error {
		if r.User != "alice" {
			return nil
		}
		all = append(all, *r)
		return nil
	})
	must(t, err)
	return all
}

// requests makes requests of each kind, and stores the version that the policy should report for each.
type requests struct {
	kubernetes.Interface
	want map[string]string // by manager
}

// do makes a request for an object that existed before, or for a new one if before is nil.
func (r *requests) do(t *testing.T, what string, before metav1.Object, do func(manager string) (metav1.Object, error)) metav1.Object {
	t.Helper()
	manager := fmt.Sprintf("step %d: %s", len(r.want)+1, what)
	after, err := do(manager)
	must(t, err)
	if before == nil {
		r.want[manager] = fmt.Sprint(after.GetName(), " ", after.GetUID(), "  true")
	} else {
		r.want[manager] = fmt.Sprint(before.GetName(), " ", before.GetUID(), " ", before.GetResourceVersion(), " false")
	}
	return after
}

// configMaps creates, patches and puts ConfigMaps.
func (r *requests) configMaps(t *testing.T) {
	t.Helper()
	all := r.CoreV1().ConfigMaps("default")
	cm := r.do(t, "create", nil, func(m string) (metav1.Object, error) {
		return all.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "cm-"}}, metav1.CreateOptions{FieldManager: m})
	})
	for _, step := range [][2]string{{"patch", `{"data":{"a":"b"}}`}, {"a no-op", `{}`}} {
		cm = r.do(t, step[0], cm, func(m string) (metav1.Object, error) {
			return all.Patch(t.Context(), cm.GetName(), types.MergePatchType, []byte(step[1]), metav1.PatchOptions{FieldManager: m})
		})
	}
	put := func(value, version string) func(string) (metav1.Object, error) {
		o := cm.(*corev1.ConfigMap).DeepCopy()
		o.Data, o.ResourceVersion = map[string]string{"a": value}, version
		return func(m string) (metav1.Object, error) {
			return all.Update(t.Context(), o, metav1.UpdateOptions{FieldManager: m})
		}
	}
	cm = r.do(t, "put", cm, put("c", cm.GetResourceVersion()))
	r.do(t, "put, whatever was there", cm, put("d", ""))
	_, err := all.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "dry"}},
		metav1.CreateOptions{DryRun: []string{"All"}, FieldManager: "dry"})
	must(t, err)
}

// deployment applies a Deployment, writes its subresources, and deletes it.
func (r *requests) deployment(t *testing.T) {
	t.Helper()
	all := r.AppsV1().Deployments("default")
	apply := func(replicas int) func(string) (metav1.Object, error) {
		force := true
		text := fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":%d,"selector":{"matchLabels":
			{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, replicas)
		return func(m string) (metav1.Object, error) {
			return all.Patch(t.Context(), "web", types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: m, Force: &force})
		}
	}
	d := r.do(t, "apply creates", nil, apply(1))
	d = r.do(t, "apply", d, apply(2))
	d = r.do(t, "status", d, func(m string) (metav1.Object, error) {
		o := d.(*appsv1.Deployment).DeepCopy()
		o.Status.Replicas = 3
		return all.UpdateStatus(t.Context(), o, metav1.UpdateOptions{FieldManager: m})
	})
	d = r.do(t, "scale", d, func(m string) (metav1.Object, error) {
		return all.UpdateScale(t.Context(), "web", &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
			Spec: autoscalingv1.ScaleSpec{Replicas: 5}}, metav1.UpdateOptions{FieldManager: m})
	})
	must(t, all.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	r.want["delete"] = fmt.Sprint("web ", d.GetUID(), " ", d.GetResourceVersion(), " false")
}

// pod creates, binds and evicts a Pod.
func (r *requests) pod(t *testing.T) {
	t.Helper()
	all := r.CoreV1().Pods("default")
	pod := r.do(t, "create a pod", nil, func(m string) (metav1.Object, error) {
		return all.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{FieldManager: m})
	})
	must(t, all.Bind(t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: pod.GetUID()}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}},
		metav1.CreateOptions{FieldManager: "binding"}))
	r.want["binding"] = fmt.Sprint("p ", pod.GetUID(), "  false")
	must(t, all.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}}))
}

// At the level Metadata, with the policy, an event has the object and the version that the request found, for any verb and
// subresource.
func TestThePolicyTellsTheVersionBefore(t *testing.T) {
	t.Parallel()
	w := newAuditWorld(t)
	w.env["KUBECDC_RESOURCES"] = "configmaps,deployments.apps,pods"
	w.start(t, "the exporter")
	client, err := kubernetes.NewForConfig(w.kube.UserConfig(w.kube.Address, "alice's"))
	must(t, err)
	w.applyPolicy(t, client)
	r := requests{client, map[string]string{}}
	r.configMaps(t)
	r.pod(t)
	r.deployment(t)
	got := map[string]string{}
	Await(t, "all events", func() (bool, error) {
		for _, record := range w.records(t) {
			key := cmp.Or(record.Manager, record.Verb)
			if _, wanted := r.want[key]; wanted || key == "dry" {
				got[key] = fmt.Sprint(record.Name, " ", record.UID, " ", record.VersionBefore, " ", record.Created)
			}
		}
		return got["delete"] != "", nil
	})
	for _, key := range slices.Sorted(maps.Keys(r.want)) {
		if got[key] != r.want[key] {
			t.Errorf("%s tells %q, want %q", key, got[key], r.want[key])
		}
	}
	if got["dry"] != "" {
		t.Error("a dry run is recorded")
	}
}

// If many clients write one object at once, the API server retries a write upon a newer version. It retains the first value of
// each annotation. Each event with only one version has the right one, and most others have it too.
func TestSlowThePolicyTellsTheLastAttempt(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := newAuditWorld(t)
	w.start(t, "the exporter")
	client, err := kubernetes.NewForConfig(w.kube.UserConfig(w.kube.Address, "alice's"))
	must(t, err)
	w.applyPolicy(t, client)
	cms := client.CoreV1().ConfigMaps("default")
	created, err := cms.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "busy"}}, metav1.CreateOptions{})
	must(t, err)
	var mu sync.Mutex
	after := map[change.ResourceVersion]string{change.ResourceVersion(created.ResourceVersion): ""}
	var wg sync.WaitGroup
	const writers, writes = 8, 60
	for i := range writers {
		wg.Go(func() {
			for n := range writes {
				manager := fmt.Sprintf("%d-%d", i, n)
				cm, err := cms.Patch(t.Context(), "busy", types.MergePatchType, fmt.Appendf(nil, `{"data":{"%d":"%d"}}`, i, n), metav1.PatchOptions{FieldManager: manager})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				after[change.ResourceVersion(cm.ResourceVersion)] = manager
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	versions := slices.SortedFunc(maps.Keys(after), change.ResourceVersion.Compare)
	before := map[string]change.ResourceVersion{}
	for i, v := range versions[1:] {
		before[after[v]] = versions[i]
	}
	reported, retried := map[string]change.ResourceVersion{}, map[string]bool{}
	Await(t, "all events", func() (bool, error) {
		for _, r := range w.records(t) {
			if r.Name == "busy" && r.Verb == "patch" {
				reported[r.Manager], retried[r.Manager] = r.VersionBefore, r.Retried
			}
		}
		return len(reported) == len(before), nil
	})
	again, wrong := 0, 0
	for manager, v := range before {
		if retried[manager] {
			again++
		} else if reported[manager] != v {
			t.Errorf("%s was not tried again, and tells %s, want %s", manager, reported[manager], v)
		}
		if reported[manager] != v {
			wrong++
		}
	}
	t.Logf("of %d events %d were tried again, and %d tell another version", len(before), again, wrong)
	if again == 0 || wrong*2 > again {
		t.Error("none was tried again, or most of these are wrong")
	}
}

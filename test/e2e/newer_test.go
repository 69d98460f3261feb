package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// storeAs writes an object into etcd, bypassing the API server.
func (w *World) storeAs(t *testing.T, kind Kind, name, value string) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{w.Kube.EtcdEndpoint}})
	must(t, err)
	defer c.Close()
	_, err = c.Put(t.Context(), kind.Prefix+"default/"+name, value)
	must(t, err)
}

// newerWorld returns a world with two ConfigMaps, and an exporter of them that is ready.
func newerWorld(t *testing.T) (*World, *Exporter, dynamic.ResourceInterface) {
	t.Helper()
	w := NewFileWorld(t)
	w.Env = w.With("KUBECDC_RESOURCES", ConfigMaps.ID())
	api := dynamic.NewForConfigOrDie(w.Kube.Config).Resource(ConfigMaps.GVR).Namespace("default")
	for _, name := range []string{"good", "bad"} {
		_, err := api.Create(t.Context(), sample(ConfigMaps, name, 0, 0), metav1.CreateOptions{})
		must(t, err)
	}
	e := StartExporter(t, "the exporter", w.Env).AwaitReady(t)
	return w, e, api
}

// logged waits for a change of a ConfigMap, and returns its record.
func (w *World) logged(t *testing.T, name, op string) (found Record) {
	t.Helper()
	Await(t, op+" of "+name+" in the log", func() (bool, error) {
		for _, r := range w.ReadFile(t).Records {
			if r.Key == "default/"+name && r.Op == op {
				found = r
			}
		}
		return found.Key != "", nil
	})
	return found
}

// An object in etcd can't be decoded. The API server then sends no more events of the resource, and lists none of its objects. The
// stream says why. Somebody then deletes the object with ignoreStoreReadErrorWithClusterBreakingPotential. After that the log has
// the deletion with the last known state, and all other changes, and the gap names the unreadable object.
func TestAnObjectThatCantBeDecoded(t *testing.T) {
	t.Parallel()
	w, e, api := newerWorld(t)
	w.storeAs(t, ConfigMaps, "bad", "k8s\x00garbage")
	e.awaitWrong(t, "stream configmaps: ", "corrupt object", "object not decodable")
	patched, err := api.Patch(t.Context(), "good", types.MergePatchType, []byte(`{"data":{"while":"bad"}}`), metav1.PatchOptions{})
	must(t, err)
	yes := true
	must(t, api.Delete(t.Context(), "bad", metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: &yes}))
	if gone := w.logged(t, "bad", "d"); !gone.Inferred || !strings.Contains(string(gone.Before), `"name":"bad"`) {
		t.Errorf("the deletion is %+v", gone)
	}
	if r := w.logged(t, "good", "u"); string(r.Version) != patched.GetResourceVersion() || !strings.Contains(string(r.After), `"while":"bad"`) {
		t.Errorf("the update is %+v", r)
	}
	gaps := slices.DeleteFunc(w.fileControls(t), func(c change.Control) bool { return c.Type != change.ControlGap })
	for i, c := range gaps { // the API server begins its watch cache anew, which may cause another gap
		if isFirst := i == 0; c.Gap.Complete == isFirst || strings.Contains(c.Gap.Reason, "corrupt object") != isFirst {
			t.Errorf("gap %d is %+v", i, c.Gap)
		}
	}
	if len(gaps) == 0 {
		t.Error("the log has no gap")
	}
	e.awaitWell(t, "the object was deleted")
}

// A StorageVersionMigration writes each object again, unchanged. The log has one update of each object, in which only the
// resourceVersion differs.
func TestSlowAStorageVersionMigrationChangesNothing(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w, _, api := newerWorld(t)
	o, err := api.Get(t.Context(), "good", metav1.GetOptions{})
	must(t, err)
	o.SetResourceVersion("")
	text, err := o.MarshalJSON()
	must(t, err)
	w.storeAs(t, ConfigMaps, "good", string(text)) // the API server stores protobuf
	w.logged(t, "good", "u")
	// The controller does the same, but needs kube-controller-manager.
	applied, err := api.Patch(t.Context(), "good", types.ApplyPatchType, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"good","namespace":"default"}}`),
		metav1.PatchOptions{FieldManager: "storage-version-migrator-controller"})
	must(t, err)
	var updates []Record
	Await(t, "the migrated object in the log", func() (bool, error) {
		updates = nil
		for _, r := range w.ReadFile(t).Records {
			if r.Key == "default/good" && r.Op == "u" {
				updates = append(updates, r)
			}
		}
		return string(updates[len(updates)-1].Version) == applied.GetResourceVersion(), nil
	})
	if len(updates) != 2 {
		t.Errorf("there are %d updates, not one by etcd and one by the migration", len(updates))
	}
	for _, r := range updates {
		was := fmt.Sprintf(`"resourceVersion":%q`, textAt(r.Before, "metadata resourceVersion"))
		if stored := fmt.Sprintf(`"resourceVersion":%q`, r.Version); strings.Replace(string(r.Before), was, stored, 1) != string(r.After) {
			t.Errorf("an update from\n%s\nto\n%s", r.Before, r.After)
		}
	}
}

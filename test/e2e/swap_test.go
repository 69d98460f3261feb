package e2e

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// atProxy puts a proxy before the API server, and returns the settings of an exporter behind it.
func (w *World) atProxy(t testing.TB, settings ...string) (*servers.Proxy, map[string]string) {
	t.Helper()
	proxy, err := servers.NewProxy(w.Kube.Address)
	must(t, err)
	t.Cleanup(proxy.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, w.Kube.WriteKubeconfig(kubeconfig, proxy.Address, ""))
	return proxy, w.With(append(settings, "KUBECONFIG", kubeconfig)...)
}

// The address of a running exporter leads to another cluster. One is younger, so that its history seems to have gone back and a CRD
// to have been removed. One is older, so that each watch goes on there. Nothing from either gets into the log.
func TestAnotherClusterAtTheSameAddressIsNotExported(t *testing.T) {
	t.Parallel()
	w := NewPostgresWorld(t, servers.PostgresOptions{})
	kinds := []Kind{ConfigMaps, Roles, Widgets}
	writer := w.Writer(t, kinds).Fill(12)
	other := w.anotherCluster(t)
	theirs := NewWriter(t, other.Config, 7, []Kind{ConfigMaps, Roles})
	proxy, env := w.atProxy(t, "KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_PROOF_INTERVAL", "1s")
	for _, age := range []string{"younger", "older"} {
		e := StartExporter(t, "with a cluster that is "+age, env)
		writer.Run(30)
		w.AwaitComplete(t, writer, kinds)
		if age == "older" {
			theirs.overtake(w.Kube, other)
		}
		before, moved := w.Read(t), time.Now()
		proxy.Retarget(other.Address)
		proxy.Drop()
		code := e.Wait(t)
		for _, text := range []string{kubeSystemUID(t, w.Kube.Config), kubeSystemUID(t, other.Config), proxy.Address, "lead the address back"} {
			if code != 2 || !strings.Contains(e.Tail(4000), text) {
				t.Errorf("%s: exit code %d, and the log lacks %q:\n%s", age, code, text, e.Tail(4000))
			}
		}
		wantNothingSince(t, w, before, moved)
		proxy.Retarget(w.Kube.Address)
		proxy.Drop()
	}
	writer.Run(30)
	runFor(t, env, func() { w.AwaitComplete(t, writer, kinds) })
	Judge(t, w.Kube, w.Read(t), w.Prefix, kinds).Demand(t, 0)
}

// wantNothingSince demands that the log has no new record of any object, and none about a stream's history. Until what moment it is complete
// may be recorded late, but not of a moment after the address has moved.
func wantNothingSince(t *testing.T, w *World, before *Log, moved time.Time) {
	t.Helper()
	recorded := func(l *Log) (all []string) {
		for _, c := range l.Controls {
			switch c.Type {
			case change.ControlBatch, change.ControlWatermark, change.ControlProof, change.ControlSettings:
				continue
			case change.ControlCurrent, change.ControlBehind:
				if c.TimeMs <= moved.UnixMilli() {
					continue
				}
			}
			all = append(all, fmt.Sprintf("%s of %s: %s", c.Type, c.Stream, c.Cause))
		}
		return all
	}
	after := w.Read(t)
	if len(after.Records) != len(before.Records) {
		t.Errorf("the log had %d records, and has %d", len(before.Records), len(after.Records))
	}
	if !reflect.DeepEqual(recorded(after), recorded(before)) {
		t.Errorf("the log had\n%v\nand now has\n%v", recorded(before), recorded(after))
	}
}

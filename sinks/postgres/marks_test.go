package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// A dashboard's marks are what somebody changed, by owner and minute: no status, no bookkeeping, nothing outside of the range. A gap is a span.
func TestMarksAreWhatSomebodyChanged(t *testing.T) {
	url := servers.Database(t)
	sink := open(t, url, "prod")
	defer sink.Close()
	log := openLog(t, sink, 1)
	defer log.Close()
	minute := time.Now().Add(-10 * time.Minute).Truncate(time.Minute)
	leases := change.NewStream(change.Resource{Group: "coordination.k8s.io", Version: "v1", Plural: "leases", Kind: "Lease", Namespaced: true}, "", "", "")
	n := 0
	changed := func(after time.Duration, stream *change.Stream, op change.Op, name, fields, manager, owner string) change.Change {
		n++
		c := event(stream, op, name, name, fmt.Sprint(n))
		c.Time = minute.Add(after)
		c.Provenance = change.Provenance{Time: c.Time, Source: change.FromManagedFields, Fields: []byte(fields), Managers: []byte(manager)}
		body := []byte(`{"spec":{"args":["\u0000"]},"metadata":{"name":"x"` + owner + `}}`)
		if op == change.Delete {
			c.Before = body
		} else {
			c.After = body
		}
		return c
	}
	const owned = `,"ownerReferences":[{"kind":"Other","name":"o"},{"kind":"ReplicaSet","name":"web-1","controller":true}]`
	write(t, log, &change.Batch{Epoch: 1, Seq: 1, Positions: []change.Position{{Stream: "pods", ResourceVersion: "1", Time: minute}},
		Controls: []change.Control{{Type: change.ControlWatermark, Stream: "pods", TimeMs: minute.Add(time.Minute).UnixMilli()}},
		Changes: []change.Change{
			changed(-time.Second, deployments, change.Update, "before", "spec.replicas", "alice", ""),
			changed(0, deployments, change.Read, "listed", "", "", ""),
			changed(0, deployments, change.Update, "web", "spec.replicas", "alice", ""),
			changed(time.Second, deployments, change.Update, "web", "spec.template,status.conditions", "kubectl-edit", ""),
			changed(2*time.Second, deployments, change.Update, "web", "status.replicas", "kube-controller-manager", ""),
			changed(2*time.Second, deployments, change.Update, "web", "metadata.annotations", "kube-controller-manager", ""),
			changed(3*time.Second, pods, change.Create, "web-1-a", "", "kube-controller-manager", owned),
			changed(4*time.Second, pods, change.Create, "web-1-b", "", "kube-controller-manager", owned),
			changed(5*time.Second, leases, change.Create, "l", "", "kubelet", ""),
			changed(61*time.Second, pods, change.Delete, "web-1-a", "", "", owned),
			changed(62*time.Second, pods, change.Delete, "hos'tile\x00", "", "", ""),
			changed(5*time.Minute, deployments, change.Create, "after", "", "alice", ""),
		}})
	write(t, log, &change.Batch{Epoch: 1, Seq: 2, Controls: []change.Control{
		{Type: change.ControlGap, Stream: "pods", TimeMs: minute.Add(4 * time.Minute).UnixMilli(), Gap: &change.Gap{ID: "g", Reason: "it was compacted"}},
		{Type: change.ControlGap, Stream: "deployments.apps", TimeMs: minute.Add(4 * time.Minute).UnixMilli(), Gap: &change.Gap{ID: "h", Complete: true}}}})
	wantRows(t, url, fmt.Sprintf(`select extract(epoch from time - to_timestamp(%[1]d))::int, extract(epoch from timeend - to_timestamp(%[1]d))::int, text, tags
			from kubecdc_log.marks(to_timestamp(%[1]d), to_timestamp(%[1]d) + interval '5 minutes') order by time, text`, minute.Unix()),
		"0|null|Deployment web in default changed: spec.replicas, spec.template by alice, kubectl-edit|prod,default,Deployment,changed,rollout",
		"3|null|ReplicaSet web-1 in default: 2 Pod created by kube-controller-manager|prod,default,Pod,created",
		"60|240|changes of pods may be missing: it was compacted|prod,gap",
		"61|null|ReplicaSet web-1 in default: 1 Pod deleted|prod,default,Pod,deleted",
		"62|null|Pod hos'tile\x01\x01 in default deleted|prod,default,Pod,deleted")
}

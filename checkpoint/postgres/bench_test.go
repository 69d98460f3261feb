package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/test/checkpointtest"
	"kubecdc/test/servers"
)

// BenchmarkCommit commits batches of 1,000 updates with bodies of about 4 KB. Its result is upserts/cpu-s, how many upserts a
// second of this process's CPU makes. The server's CPU is not included.
func BenchmarkCommit(b *testing.B) {
	store := open(b, servers.SharedPostgres(b).URL)
	defer store.Close()
	name := servers.UniqueName() // a separate cluster
	checkpointtest.Bind(b, store, name, name)
	state, err := store.Acquire(b.Context(), 0, "a", time.Hour)
	must(b, err)
	commit := checkpoint.Commit{Epoch: state.Epoch, Positions: []change.Position{{Stream: "pods", ResourceVersion: "1"}},
		Streams: []checkpoint.StreamCommit{{Stream: "pods", Upserts: pods(1000)}}}
	b.ReportAllocs()
	started := cpu()
	for b.Loop() {
		commit.Seq++
		must(b, store.Commit(b.Context(), commit))
	}
	upserts := float64(b.N * 1000)
	b.ReportMetric(upserts/(cpu()-started).Seconds(), "upserts/cpu-s")
	b.ReportMetric(upserts/b.Elapsed().Seconds(), "upserts/s")
}

// pods returns pods that are as similar as the pods of one cluster.
func pods(n int) []checkpoint.Object {
	r := rand.New(rand.NewPCG(1, 2))
	objects := make([]checkpoint.Object, n)
	for i := range objects {
		name := fmt.Sprintf("web-%08x-%05x", r.Uint32(), i)
		uid := fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", r.Uint32(), i, i%4096, r.IntN(4096), r.Uint64()>>16)
		var env strings.Builder
		for j := range 20 {
			fmt.Fprintf(&env, `{"name":"SETTING_%d","value":"%x"},`, j, r.Uint64())
		}
		body := fmt.Sprintf(podTemplate, name, uid, r.IntN(1e9), r.Uint32(), env.String(), r.Uint64(), r.Uint64(), r.IntN(255), r.IntN(255), r.Uint64())
		objects[i] = checkpoint.Object{Key: "default/" + name, UID: uid, ResourceVersion: change.ResourceVersion(fmt.Sprint(r.IntN(1e9))),
			Body: checkpoint.Pack([]byte(body))}
	}
	return objects
}

const podTemplate = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"%s","generateName":"web-","namespace":"default","uid":"%s","resourceVersion":"%d","generation":1,"creationTimestamp":"2026-05-11T09:12:44Z","labels":{"app":"web","pod-template-hash":"%x","tier":"frontend"},"annotations":{"prometheus.io/scrape":"true","prometheus.io/port":"9090"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-5d4f8c7b9","uid":"0b1f4a52-6f0e-4dd8-9f0b-6d1c3a4e5f60","controller":true,"blockOwnerDeletion":true}]},"spec":{"volumes":[{"name":"kube-api-access","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}],"defaultMode":420}}],"containers":[{"name":"web","image":"registry.example.com/team/web:1.24.3","ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],"env":[%s{"name":"LAST","value":"1"}],"resources":{"limits":{"cpu":"500m","memory":"512Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"kube-api-access","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],"livenessProbe":{"httpGet":{"path":"/healthz","port":"http","scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","serviceAccount":"default","nodeName":"node-%x","securityContext":{},"schedulerName":"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},"status":{"phase":"Running","conditions":[{"type":"Initialized","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-05-11T09:12:44Z"},{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-05-11T09:12:51Z"},{"type":"ContainersReady","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-05-11T09:12:51Z"},{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-05-11T09:12:44Z"}],"hostIP":"10.0.0.%x","podIP":"10.244.%d.%d","startTime":"2026-05-11T09:12:44Z","containerStatuses":[{"name":"web","state":{"running":{"startedAt":"2026-05-11T09:12:50Z"}},"lastState":{},"ready":true,"restartCount":0,"image":"registry.example.com/team/web:1.24.3","containerID":"containerd://%x","started":true}],"qosClass":"Burstable"}}`

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

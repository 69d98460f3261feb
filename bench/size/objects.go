package main

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
)

// render fills in an object's number, a time, text that no other object has, and long lists.
func render(text string, i int, moment string) string {
	own := fmt.Sprintf("%x", sha256.Sum256([]byte(strconv.Itoa(i))))
	var images, env strings.Builder
	for n := range 50 {
		digest := sha256.Sum256([]byte(strconv.Itoa(n)))
		fmt.Fprintf(&images, `{"names":["registry.example.com/team-%d/app-%d@sha256:%x","registry.example.com/team-%[1]d/app-%[2]d:v1.%[2]d"],"sizeBytes":%[4]d},`, n%7, n, digest, 30000000+n*977)
	}
	for n := range 20 {
		fmt.Fprintf(&env, `{"name":"SETTING_%d","value":"%s"},`, n, own[n:n+20])
	}
	return strings.NewReplacer("%N", strconv.Itoa(i), "%T", moment, "%OWN", own, "%IMAGES", strings.TrimSuffix(images.String(), ","),
		"%ENV", strings.TrimSuffix(env.String(), ",")).Replace(text)
}

const (
	lease = `{"metadata":{"name":"node-%N","namespace":"kube-node-lease","ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"node-%N",
"uid":"0b1f4a52-6f0e-4dd8-9f0b-000000000000"}]},"spec":{"holderIdentity":"node-%N","leaseDurationSeconds":40,"renewTime":"2026-01-01T00:00:00.000000Z"}}`

	node = `{"metadata":{"name":"node-%N","labels":{"beta.kubernetes.io/arch":"amd64","beta.kubernetes.io/os":"linux","kubernetes.io/arch":"amd64",
"kubernetes.io/hostname":"node-%N","kubernetes.io/os":"linux","node.kubernetes.io/instance-type":"m5.xlarge","topology.kubernetes.io/region":"eu-1",
"topology.kubernetes.io/zone":"eu-1a"},"annotations":{"node.alpha.kubernetes.io/ttl":"0","volumes.kubernetes.io/controller-managed-attach-detach":"true"}},
"spec":{"podCIDR":"10.1.0.0/24","providerID":"aws:///eu-1a/i-%OWN"}}`
	nodeStatus = `{"status":{"capacity":{"cpu":"4","ephemeral-storage":"101430960Ki","hugepages-2Mi":"0","memory":"16070148Ki","pods":"110"},
"allocatable":{"cpu":"3920m","ephemeral-storage":"93478772582","hugepages-2Mi":"0","memory":"15055364Ki","pods":"110"},
"addresses":[{"type":"InternalIP","address":"10.0.0.%N"},{"type":"Hostname","address":"node-%N"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":10250}},
"nodeInfo":{"machineID":"%OWN","systemUUID":"%OWN","bootID":"%OWN","kernelVersion":"6.1.0","osImage":"Debian 12","containerRuntimeVersion":"containerd://2.0.0",
"kubeletVersion":"v1.37.0","kubeProxyVersion":"","operatingSystem":"linux","architecture":"amd64"},"images":[%IMAGES],"conditions":[
{"type":"MemoryPressure","status":"False","lastHeartbeatTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"KubeletHasSufficientMemory","message":"kubelet has sufficient memory available"},
{"type":"DiskPressure","status":"False","lastHeartbeatTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"KubeletHasNoDiskPressure","message":"kubelet has no disk pressure"},
{"type":"PIDPressure","status":"False","lastHeartbeatTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"KubeletHasSufficientPID","message":"kubelet has sufficient PID available"},
{"type":"Ready","status":"True","lastHeartbeatTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"KubeletReady","message":"kubelet is posting ready status"}]}}`
	heartbeat = `{"status":{"conditions":[{"type":"MemoryPressure","lastHeartbeatTime":"%T"},{"type":"DiskPressure","lastHeartbeatTime":"%T"},
{"type":"PIDPressure","lastHeartbeatTime":"%T"},{"type":"Ready","lastHeartbeatTime":"%T"}]}}`

	pod = `{"metadata":{"name":"web-%N","generateName":"web-","labels":{"app":"web","pod-template-hash":"7c5b6d8f9"},"ownerReferences":[{"apiVersion":"apps/v1",
"kind":"ReplicaSet","name":"web-7c5b6d8f9","uid":"0b1f4a52-6f0e-4dd8-9f0b-000000000001","controller":true,"blockOwnerDeletion":true}]},
"spec":{"serviceAccountName":"default","containers":[{"name":"app","image":"registry.example.com/team/app:v1.4.2","env":[%ENV],"ports":[{"containerPort":8080,"name":"http"}],
"resources":{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"memory":"256Mi"}},"readinessProbe":{"httpGet":{"path":"/ready","port":8080}},
"volumeMounts":[{"name":"token","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","readOnly":true}]}],"volumes":[{"name":"token","projected":
{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}}]}}]}}`
	podConditions = `"conditions":[{"type":"PodReadyToStartContainers","status":"%S","lastTransitionTime":"%T"},{"type":"Initialized","status":"True","lastTransitionTime":"%T"},
{"type":"Ready","status":"%R","lastTransitionTime":"%T"},{"type":"ContainersReady","status":"%R","lastTransitionTime":"%T"},
{"type":"PodScheduled","status":"True","lastTransitionTime":"%T"}]`
	podContainer = `"hostIP":"10.0.0.1","podIP":"10.1.2.3","podIPs":[{"ip":"10.1.2.3"}],"containerStatuses":[{"name":"app","state":%STATE,"ready":%READY,"started":%READY,"restartCount":0,
"image":"registry.example.com/team/app:v1.4.2","imageID":"registry.example.com/team/app@sha256:%OWN","containerID":"containerd://%OWN"}]`

	workload = `{"metadata":{"name":"app-%N","labels":{"app":"app-%N"}},"spec":{"replicas":10,"selector":{"matchLabels":{"app":"app-%N"}},
"template":{"metadata":{"labels":{"app":"app-%N"}},"spec":{"containers":[{"name":"app","image":"registry.example.com/app:v0","env":[%ENV],
"resources":{"requests":{"cpu":"100m","memory":"128Mi"}},"ports":[{"containerPort":8080}]}]}}}}`

	event = `{"metadata":{"name":"web-%N.17c5b0b5","namespace":"default"},"involvedObject":{"apiVersion":"v1","kind":"Pod","name":"web-%N","namespace":"default",
"uid":"0b1f4a52-6f0e-4dd8-9f0b-000000000001","fieldPath":"spec.containers{app}"},"reason":"Pulled","type":"Normal","count":1,"firstTimestamp":"%T","lastTimestamp":"%T",
"message":"Container image registry.example.com/team/app:v1.4.2 already present on machine","source":{"component":"kubelet","host":"node-%N"},"reportingComponent":"kubelet"}`
)

// The states of a pod, as its kubelet writes them.
var (
	podCreating = podStatus("Pending", "False", "False", `{"waiting":{"reason":"ContainerCreating"}}`, "false")
	podRunning  = podStatus("Running", "True", "False", `{"running":{"startedAt":"%T"}}`, "false")
	podReady    = podStatus("Running", "True", "True", `{"running":{"startedAt":"%T"}}`, "true")
	podEnded    = podStatus("Succeeded", "False", "False", `{"terminated":{"exitCode":0,"reason":"Completed","startedAt":"%T","finishedAt":"%T","containerID":"containerd://%OWN"}}`, "false")
)

func podStatus(phase, started, ready, state, containerReady string) string {
	text := `{"status":{"phase":"` + phase + `","startTime":"%T",` + podConditions + "," + podContainer + `}}`
	return strings.NewReplacer("%STATE", state, "%READY", containerReady, "%S", started, "%R", ready).Replace(text)
}

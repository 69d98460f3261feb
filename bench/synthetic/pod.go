package synthetic

import (
	"strconv"
	"strings"
)

// pod renders pods of about 4.2 KB, as kube-apiserver writes them: managedFields are 40% of the bytes. What differs
// from pod to pod in a real cluster differs here (names, uids, addresses, container ids, times), and the rest is
// shared by the pods of one deployment, so that a compressor finds what it would find there.
type pod struct {
	parts           []part
	versions, times []int // where they stand
}

// part is fixed text, then one hole.
type part struct {
	text string
	hole byte
}

// deployments is how many different pod templates there are.
const deployments = 40

// newPod makes the template of one deployment.
func newPod(kind, apiVersion string, deployment int) pod {
	fixed := strings.NewReplacer("%KIND", kind, "%API", apiVersion,
		"%APP", "app-"+strconv.Itoa(100+deployment), "%HASH", hexOf(uint64(deployment)*0x9e3779b97f4a7c15, 9),
		"%OWNER", uuidOf(uint64(deployment)+1<<40)).Replace(podText)
	var p pod
	for {
		text, rest, found := strings.Cut(fixed, "«")
		if !found {
			p.parts = append(p.parts, part{text: text})
			return p
		}
		p.parts = append(p.parts, part{text, rest[0]})
		switch at := len(p.append(nil, 0)); rest[0] {
		case 'v':
			p.versions = append(p.versions, at-8)
		case 't':
			p.times = append(p.times, at-2)
		}
		fixed = rest[1+len("»"):]
	}
}

// append renders object id at version 0.
func (p pod) append(dst []byte, id int) []byte {
	seed := mix(uint64(id) + 1)
	for i, part := range p.parts {
		dst = append(dst, part.text...)
		switch part.hole {
		case 'n':
			dst = appendName(dst, id)
		case 's':
			dst = appendNamespace(dst, id)
		case 'u':
			dst = appendUUID(dst, seed)
		case 'v':
			dst = append(dst, "00000000"...)
		case 'x': // 16 hex digits, the object's own
			dst = appendHex(dst, mix(seed+uint64(i)), 16)
		case 't': // seconds, the revision's own
			dst = append(dst, "00"...)
		case 'd':
			dst = strconv.AppendUint(dst, 100+mix(seed+uint64(i))%156, 10)
		}
	}
	return dst
}

// stamp writes the version into a rendered object, and the times that change with it. Every hole has the same width
// in each object, so they are where they are in all of the deployment.
func (p pod) stamp(body []byte, version uint64) {
	for _, at := range p.versions {
		strconv.AppendUint(body[at:at:at+8], version, 10)
	}
	for _, at := range p.times {
		body[at], body[at+1] = '0'+byte(version/10%6), '0'+byte(version%10)
	}
}

// namespaceSize objects share a namespace. Names and namespaces grow with the id, so that the order of ids is the
// order of keys.
const namespaceSize = 5000

func appendNamespace(dst []byte, id int) []byte {
	return appendPadded(append(dst, "team-"...), id/namespaceSize, 4)
}

func appendName(dst []byte, id int) []byte {
	dst = appendPadded(append(dst, "web-"...), id, 7)
	return appendHex(append(dst, '-'), mix(uint64(id)), 5)
}

// idOf finds the object that a name belongs to.
func idOf(name string) int {
	digits, ok := strings.CutPrefix(name, "web-")
	if !ok || len(digits) < 7 {
		return -1
	}
	id, err := strconv.Atoi(digits[:7])
	if err != nil {
		return -1
	}
	return id
}

func appendPadded(dst []byte, n, width int) []byte {
	text := strconv.Itoa(n)
	for range width - len(text) {
		dst = append(dst, '0')
	}
	return append(dst, text...)
}

func appendUUID(dst []byte, seed uint64) []byte {
	a, b := mix(seed), mix(seed+1)
	dst = append(appendHex(dst, a, 8), '-')
	dst = append(appendHex(dst, a>>32, 4), '-', '4')
	dst = append(appendHex(dst, a>>48, 3), '-', '8')
	dst = append(appendHex(dst, b>>52, 3), '-')
	return appendHex(dst, b, 12)
}

func appendHex(dst []byte, v uint64, digits int) []byte {
	for range digits {
		dst = append(dst, "0123456789abcdef"[v&15])
		v >>= 4
	}
	return dst
}

func hexOf(v uint64, digits int) string { return string(appendHex(nil, v, digits)) }
func uuidOf(seed uint64) string         { return string(appendUUID(nil, seed)) }

// mix is splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// In podText «x» is a hole: see append.
const podText = `{"kind":"%KIND","apiVersion":"%API","metadata":{"name":"«n»","generateName":"%APP-%HASH-","namespace":"«s»","uid":"«u»","resourceVersion":"«v»","generation":1,"creationTimestamp":"2026-05-11T09:12:44Z","labels":{"app":"%APP","pod-template-hash":"%HASH","tier":"frontend"},"annotations":{"prometheus.io/port":"9090","prometheus.io/scrape":"true"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"%APP-%HASH","uid":"%OWNER","controller":true,"blockOwnerDeletion":true}],"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-05-11T09:12:44Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:prometheus.io/port":{},"f:prometheus.io/scrape":{}},"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{},"f:tier":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"%OWNER\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"%APP\"}":{".":{},"f:env":{".":{},"k:{\"name\":\"LOG_LEVEL\"}":{".":{},"f:name":{},"f:value":{}},"k:{\"name\":\"RELEASE\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{},"f:protocol":{}}},"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{},"f:memory":{}},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}},"f:tty":{}}},"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{}}}},{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-05-11T09:12:«t»Z","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Initialized\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Ready\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{".":{},"k:{\"ip\":\"10.«d».«d».«d»\"}":{".":{},"f:ip":{}}},"f:startTime":{}}},"subresource":"status"}]},"spec":{"volumes":[{"name":"kube-api-access-«d»","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}],"defaultMode":420}}],"containers":[{"name":"%APP","image":"registry.example.com/team/%APP:1.24.3","ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],"env":[{"name":"LOG_LEVEL","value":"info"},{"name":"RELEASE","value":"%HASH"}],"resources":{"limits":{"cpu":"500m","memory":"512Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"kube-api-access-«d»","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],"imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","serviceAccount":"default","nodeName":"node-«d»","securityContext":{},"schedulerName":"default-scheduler","enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},"status":{"phase":"Running","conditions":[{"type":"Initialized","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-05-11T09:12:44Z"},{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-05-11T09:12:«t»Z"},{"type":"ContainersReady","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-05-11T09:12:«t»Z"}],"hostIP":"10.0.0.«d»","podIP":"10.«d».«d».«d»","startTime":"2026-05-11T09:12:44Z","containerStatuses":[{"name":"%APP","state":{"running":{"startedAt":"2026-05-11T09:12:«t»Z"}},"lastState":{},"ready":true,"restartCount":0,"image":"registry.example.com/team/%APP:1.24.3","containerID":"containerd://«x»«x»«x»«x»","started":true}],"qosClass":"Burstable"}}`

package synthetic

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// pod renders pods of about 4.2 KB, as kube-apiserver writes them: managedFields are a quarter of the bytes. What differs from pod to
// pod in a real cluster differs here: names, uids, addresses, container ids, times, an annotation of its own. What the pods of one
// deployment share is random text too, and a batch seldom has two pods of one deployment. So a batch of pods shrinks to about a fifth,
// like a batch of real pods (see TestPodsShrinkLikeRealOnes).
type pod struct {
	parts           []part
	versions, times []int // where they stand
	texts           []text
}

// text is where words or digits of an object stand that may be written anew: three tenths of it.
type text struct {
	offset, width int
	appendTo      func(dst []byte, seed uint64, width int) []byte
}

// part is fixed text, then one hole.
type part struct {
	text  string
	hole  byte
	width int // width of the holes that have one
}

// deployments is how many different pod templates there are.
const deployments = 1000

// hole is «x64»: what belongs there, and how wide it is. A capital letter is the deployment's, a small one the object's.
var hole = regexp.MustCompile(`«([a-zA-Z])([0-9]*)»`)

// newPod makes the template of one deployment.
func newPod(kind, apiVersion string, deployment int) pod {
	seed := mix(uint64(deployment) + 1<<40)
	app := string(appendWord(append(appendWord(nil, seed), '-'), seed>>32))
	template := strings.NewReplacer("%KIND", kind, "%API", apiVersion, "%APP", app, "%HASH", string(appendHex(nil, seed, 9)),
		"%OWNER", uuidOf(seed), "%DIGEST", string(appendHex(nil, seed+1, 64))).Replace(podText)
	var p pod
	fixed := ""
	for i, offset := 0, 0; ; i++ {
		h := hole.FindStringSubmatchIndex(template[offset:])
		if h == nil {
			p.parts = append(p.parts, part{text: fixed + template[offset:]})
			return p
		}
		fixed += template[offset : offset+h[0]]
		letter := template[offset+h[2]]
		width, _ := strconv.Atoi(template[offset+h[4] : offset+h[5]])
		offset += h[1]
		switch letter {
		case 'W':
			fixed += string(appendWords(nil, seed+uint64(i), width))
		case 'X':
			fixed += string(appendHex(nil, seed+uint64(i), width))
		default:
			p.parts = append(p.parts, part{fixed, letter, width})
			fixed = ""
		}
		p.addHole(letter, len(p.append(nil, 0))+len(fixed), width)
	}
}

// addHole records where a hole ends that may be filled anew.
func (p *pod) addHole(letter byte, end, width int) {
	switch letter {
	case 'v':
		p.versions = append(p.versions, end-8)
	case 't':
		p.times = append(p.times, end-2)
	case 'w', 'W':
		p.texts = append(p.texts, text{end - width, width, appendWords})
	case 'x', 'X':
		p.texts = append(p.texts, text{end - width, width, appendHex})
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
			dst = append(dst, uuidOf(seed)...)
		case 'v':
			dst = append(dst, "00000000"...)
		case 't': // seconds, the revision's own
			dst = append(dst, "00"...)
		case 'd':
			dst = strconv.AppendUint(dst, 100+mix(seed+uint64(i))%156, 10)
		case 'x':
			dst = appendHex(dst, seed+uint64(i), part.width)
		case 'w':
			dst = appendWords(dst, seed+uint64(i), part.width)
		}
	}
	return dst
}

// stamp writes the version into a rendered object, and the times that change with it. It also writes the texts of a version, unless that
// is 0. Every hole has the same width in each object, so it is at the same offset in all objects of the deployment.
func (p pod) stamp(body []byte, version, texts uint64) {
	for _, place := range p.versions {
		strconv.AppendUint(body[place:place:place+8], version, 10)
	}
	for _, place := range p.times {
		body[place], body[place+1] = '0'+byte(version/10%6), '0'+byte(version%10)
	}
	for _, t := range p.texts {
		if texts != 0 {
			copy(body[t.offset:], t.appendTo(nil, mix(texts+uint64(t.offset)), t.width))
		}
	}
}

// namespaceSize objects share a namespace. Names and namespaces grow with the id, so that the order of ids is the
// order of keys.
const namespaceSize = 200

func appendNamespace(dst []byte, id int) []byte {
	return appendPadded(append(dst, "team-"...), id/namespaceSize, 4)
}

func appendName(dst []byte, id int) []byte {
	dst = appendPadded(append(dst, "web-"...), id, 7)
	return appendHex(append(dst, '-'), uint64(id), 5)
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

func uuidOf(seed uint64) string {
	h := appendHex(nil, seed, 30)
	return fmt.Sprintf("%s-%s-4%s-8%s-%s", h[:8], h[8:12], h[12:15], h[15:18], h[18:])
}

// appendHex appends random digits.
func appendHex(dst []byte, seed uint64, digits int) []byte {
	for i := range digits {
		if i%16 == 0 {
			seed = mix(seed)
		}
		dst = append(dst, "0123456789abcdef"[seed>>(i%16*4)&15])
	}
	return dst
}

// appendWords appends random words, so many bytes of them.
func appendWords(dst []byte, seed uint64, width int) []byte {
	end := len(dst) + width
	for len(dst) < end {
		seed = mix(seed)
		dst = append(appendWord(dst, seed), ' ')
	}
	dst = dst[:end]
	if dst[end-1] == ' ' {
		dst[end-1] = 's'
	}
	return dst
}

// appendWord appends one of 32,768 words of two or three syllables.
func appendWord(dst []byte, seed uint64) []byte {
	syllables := mix(seed & 32767)
	for range 2 + syllables>>63 {
		dst = append(dst, "bcdfghklmnprstvz"[syllables&15], "aeio"[syllables>>4&3])
		if syllables>>6&1 == 0 {
			dst = append(dst, "nrst"[syllables>>7&3])
		}
		syllables >>= 9
	}
	return dst
}

// mix is splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// In podText «x» is a hole: see newPod and append.
const podText = `{"kind":"%KIND","apiVersion":"%API","metadata":{"name":"«n»","generateName":"%APP-%HASH-","namespace":"«s»","uid":"«u»","resourceVersion":"«v»","generation":1,"creationTimestamp":"2026-05-11T09:12:44Z","labels":{"app.kubernetes.io/name":"%APP","app.kubernetes.io/part-of":"«W12»","pod-template-hash":"%HASH"},"annotations":{"checksum/config":"«X64»","description":"«W240»","cni.projectcalico.org/containerID":"«x64»","cni.projectcalico.org/podIP":"10.«d».«d».«d»/32","scheduler/note":"«w250»"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"%APP-%HASH","uid":"%OWNER","controller":true,"blockOwnerDeletion":true}],"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-05-11T09:12:44Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{},"f:generateName":{},"f:labels":{".":{},"f:app.kubernetes.io/name":{},"f:pod-template-hash":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"%OWNER\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"%APP\"}":{".":{},"f:env":{".":{},"k:{\"name\":\"LOG_LEVEL\"}":{".":{},"f:name":{},"f:value":{}},"k:{\"name\":\"FEATURES\"}":{}},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:resources":{".":{},"f:limits":{},"f:requests":{}}}},"f:restartPolicy":{},"f:securityContext":{}}}},{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-05-11T09:12:«t»Z","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{".":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:startTime":{}}},"subresource":"status"}]},"spec":{"volumes":[{"name":"config","configMap":{"name":"«W24»","defaultMode":420}}],"containers":[{"name":"%APP","image":"registry.example.com/team/%APP@sha256:%DIGEST","args":["«W60»","«W90»"],"env":[{"name":"LOG_LEVEL","value":"info"},{"name":"FEATURES","value":"«W180»"},{"name":"HOSTS","value":"«W110»"}],"resources":{"limits":{"memory":"512Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","dnsPolicy":"ClusterFirst","serviceAccountName":"%APP","nodeName":"node-«d»","securityContext":{},"priority":0},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-05-11T09:12:«t»Z"},{"type":"ContainersReady","status":"True","lastTransitionTime":"2026-05-11T09:12:«t»Z"}],"hostIP":"10.0.0.«d»","podIP":"10.«d».«d».«d»","startTime":"2026-05-11T09:12:44Z","containerStatuses":[{"name":"%APP","state":{"running":{"startedAt":"2026-05-11T09:12:«t»Z"}},"lastState":{},"ready":true,"restartCount":0,"image":"registry.example.com/team/%APP@sha256:%DIGEST","containerID":"containerd://«x64»","started":true}],"qosClass":"Burstable"}}`

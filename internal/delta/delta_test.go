package delta

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func FuzzMake(f *testing.F) {
	pod := []byte(pod(1))
	f.Add([]byte{}, []byte{})
	f.Add(pod, pod)
	f.Add(pod, []byte{})
	f.Add([]byte{}, pod)
	f.Add(pod, bytes.Repeat(pod, 3))
	f.Fuzz(func(t *testing.T, base, text []byte) { roundTrip(t, base, text) })
}

// roundTrip returns the length of the delta.
func roundTrip(t testing.TB, base, text []byte) int {
	t.Helper()
	limit := len(text) + 45 // three times what comes before the steps
	delta := Make(base, text, limit)
	if delta == nil {
		t.Fatalf("no delta of up to %d bytes", limit)
	}
	if n := Len(delta); n != len(text) {
		t.Fatalf("the delta of %d bytes says %d", len(text), n)
	}
	got, err := Apply(make([]byte, 0, rand.IntN(2*len(text)+1)), base, delta)
	if err != nil || !bytes.Equal(got, text) {
		t.Fatalf("%v: %.100q comes back as %.100q, by %.100q", err, text, got, delta)
	}
	if less := Make(base, text, len(delta)-1); less != nil {
		t.Fatalf("a delta of %d bytes is above the limit", len(less))
	}
	return len(delta)
}

// Whatever is changed in a Pod, the delta restores it. A small change makes a small delta.
func TestDeltasOfMutatedPods(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	size, changed, all := 0, 0, 0
	for i := range 4000 {
		base := []byte(pod(i % 50))
		text := bytes.Clone(base)
		mutations := 1 + random.IntN(5)
		for range mutations {
			place := random.IntN(len(text))
			n := random.IntN(min(60, len(text)-place))
			piece := make([]byte, random.IntN(60))
			for j := range piece {
				piece[j] = "0123456789abcdef\":,{}"[random.IntN(21)]
			}
			changed += len(piece)
			text = append(append(bytes.Clone(text[:place]), piece...), text[place+n:]...)
		}
		size += roundTrip(t, base, text)
		all += mutations
	}
	t.Logf("%d bytes of deltas for %d mutations with %d bytes", size, all, changed)
	if size > 2*changed+30*all {
		t.Errorf("%d bytes of deltas for %d mutations with %d bytes", size, all, changed)
	}
}

// inPlace finds the same offset as a comparison byte by byte.
func TestInPlace(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	found := 0
	for range 20000 {
		base := make([]byte, random.IntN(120))
		for i := range base {
			base[i] = 'a' + byte(random.IntN(2))
		}
		text := bytes.Clone(base)
		for range random.IntN(12) {
			if len(text) > 0 {
				text[random.IntN(len(text))] = 'c'
			}
		}
		want := -1
		for i := 0; i < min(64, len(base)-7) && want < 0; i++ {
			if bytes.Equal(base[i:i+8], text[i:i+8]) {
				want = i
			}
		}
		if got := inPlace(base, text); want >= 0 && got != want || want < 0 && got >= 0 && got < 64 {
			t.Fatalf("%q and %q: %d, want %d", base, text, got, want)
		}
		if want > 0 {
			found++
		}
	}
	if found < 1000 {
		t.Errorf("only %d are the same again", found)
	}
}

// An update of a status makes a delta of little more than the new values.
func TestADeltaIsSmall(t *testing.T) {
	base := pod(1)
	for name, c := range map[string]struct {
		old, new string
		most     int
	}{
		"nothing":          {"Running", "Running", 15},
		"a time":           {`"lastTransitionTime":"2026-05-11T09:12:51Z"`, `"lastTransitionTime":"2026-06-02T19:02:11Z"`, 50},
		"a longer version": {`"resourceVersion":"10001"`, `"resourceVersion":"987654321"`, 40},
		"a new condition":  {`"conditions":[`, `"conditions":[{"type":"ContainersReady","status":"False","lastProbeTime":null},`, 110},
		"a field less":     {`"hostIP":"10.0.0.7",`, ``, 40},
	} {
		text := strings.ReplaceAll(base, c.old, c.new)
		if text == base && c.old != c.new {
			t.Fatalf("%s: not in the Pod", name)
		}
		if n := roundTrip(t, []byte(base), []byte(text)); n > c.most {
			t.Errorf("%s: %d bytes, above %d", name, n, c.most)
		}
	}
}

// A delta for another base, or one that is damaged, is an error and never another text.
func TestDamagedDeltasAreErrors(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	base, text := []byte(pod(1)), []byte(strings.ReplaceAll(pod(1), "09:12", "17:40"))
	delta := Make(base, text, len(text))
	if _, err := Apply(nil, []byte(pod(2)), delta); err == nil {
		t.Error("a delta fits another base")
	}
	huge := binary.AppendUvarint([]byte{format}, 1<<39)
	for _, d := range [][]byte{nil, {}, {format}, {format, 0xff}, {7, 1, 0, 0, 0, 0}, append(huge, make([]byte, 30)...)} {
		if got, err := Apply(nil, base, d); err == nil {
			t.Errorf("%q makes %.20q", d, got)
		}
	}
	for range 20000 {
		d := bytes.Clone(delta)[:len(delta)-random.IntN(2)*random.IntN(len(delta))]
		for range random.IntN(4) {
			d[random.IntN(len(d))] ^= byte(1 << random.IntN(8))
		}
		if got, err := Apply(nil, base, d); err == nil && !bytes.Equal(got, text) {
			t.Fatalf("%q makes another text", d)
		}
	}
}

func BenchmarkMake(b *testing.B) {
	base := []byte(pod(1))
	times := strings.NewReplacer("09:12:5", "11:31:1", `"resourceVersion":"10001"`, `"resourceVersion":"10732"`)
	for name, text := range map[string]string{
		"times":    times.Replace(pod(1)),
		"longer":   strings.ReplaceAll(times.Replace(pod(1)), `"SETTING_3`, `"A_LONGER_NAME_3`),
		"rewrite":  pod(2), // the values of all variables
		"replaced": strings.Replace(times.Replace(pod(1)), `"app":"web"`, `"app":"`+longText(1200)+`"`, 1),
	} {
		in, base := []byte(text), base
		if name == "replaced" {
			base = []byte(strings.Replace(pod(1), `"app":"web"`, `"app":"`+longText(1100)+`"`, 1))
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Make(base, in, 4000)
			}
			b.ReportMetric(float64(len(base)), "base-bytes")
			b.ReportMetric(float64(len(Make(base, []byte(text), 4000))), "delta-bytes")
		})
	}
}

// longText is a value without structure.
func longText(n int) string {
	random, text := rand.New(rand.NewPCG(9, uint64(n))), make([]byte, n/2)
	for i := range text {
		text[i] = byte(random.Uint32())
	}
	return fmt.Sprintf("%x", text)
}

func BenchmarkApply(b *testing.B) {
	base := []byte(pod(1))
	delta := Make(base, []byte(strings.ReplaceAll(pod(1), "09:12:5", "11:31:1")), 1000)
	dst := make([]byte, len(base))
	for b.Loop() {
		if _, err := Apply(dst, base, delta); err != nil {
			b.Fatal(err)
		}
	}
}

// pod is a Pod of 4 KB as an API server returns it, with text that only this Pod has.
func pod(i int) string {
	random := rand.New(rand.NewPCG(7, uint64(i)))
	var env strings.Builder
	for j := range 60 {
		fmt.Fprintf(&env, `{"name":"SETTING_%d","value":"%x"},`, j, random.Uint64())
	}
	return fmt.Sprintf(podTemplate, i, i, 10000+i, random.Uint64(), env.String(), random.Uint64())
}

const podTemplate = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-%d","namespace":"default","uid":"0b1f4a52-%d","resourceVersion":"%d","generation":1,"creationTimestamp":"2026-05-11T09:12:44Z","labels":{"app":"web","pod-template-hash":"%x","tier":"frontend"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-5d4f8c7b9","uid":"0b1f4a52-6f0e-4dd8-9f0b-6d1c3a4e5f60","controller":true,"blockOwnerDeletion":true}]},"spec":{"containers":[{"name":"web","image":"registry.example.com/team/web:1.24.3","ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],"env":[%s{"name":"LAST","value":"1"}],"resources":{"limits":{"cpu":"500m","memory":"512Mi"},"requests":{"cpu":"100m","memory":"128Mi"}}}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","schedulerName":"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]},"status":{"phase":"Running","conditions":[{"type":"Initialized","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-05-11T09:12:44Z"},{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-05-11T09:12:51Z"},{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-05-11T09:12:52Z"}],"hostIP":"10.0.0.7","podIP":"10.244.1.9","startTime":"2026-05-11T09:12:44Z","containerStatuses":[{"name":"web","state":{"running":{"startedAt":"2026-05-11T09:12:50Z"}},"ready":true,"restartCount":0,"containerID":"containerd://%x","started":true}],"qosClass":"Burstable"}}`

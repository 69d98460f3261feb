package reflector_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kubecdc/change"
	"kubecdc/source/reflector"
	"kubecdc/test/servers"
)

func proofs(controls []change.Control) (all []change.Control) {
	for _, c := range controls {
		if c.Type == change.ControlProof {
			all = append(all, c)
		}
	}
	return all
}

func proving() reflector.Options {
	o := plain()
	o.Proofs, o.Quiet = time.Minute, time.Hour
	return o
}

// provedAt is a list of identities at a version, as a proof asks for it.
func provedAt(version string, objects ...string) step {
	return step{want: "list metadata rv=" + version + " match=Exact limit=2", body: listed(version, "", objects...)}
}

// expectProofs compares results and differences, without times.
func expectProofs(t *testing.T, l *ledger, want ...string) {
	t.Helper()
	all := proofs(l.controls)
	for i, c := range all {
		c.Proof.ElapsedMs = 0
		text, _ := json.Marshal(c.Proof)
		if got := string(c.ResourceVersion) + " " + string(text); i >= len(want) || got != want[i] {
			t.Errorf("proof %d is %s", i, got)
		}
	}
	if len(all) != len(want) {
		t.Errorf("%d proofs, want %d", len(all), len(want))
	}
}

func digestOf(objects ...[3]string) string {
	var d change.Digest
	for _, o := range objects {
		d.Add("default/"+o[0], uid(o[1]), change.ResourceVersion(o[2]))
	}
	return d.String()
}

// A proof reads the collection in pages, as it was at the stream's position.
func TestAProofThatNothingDiffers(t *testing.T) {
	l := resumed("10", "a a 5", "b b 6", "c c 7")
	steps := append(holds("12", "c c 7"),
		step{want: "watch rv=10", body: modified("a a 11") + bookmark("12"), hang: true},
		step{want: "list metadata rv=12 match=Exact limit=2", body: listed("12", "next", "a a 11", "b b 6")},
		step{want: "list metadata continue=next limit=2", body: listed("12", "", "c c 7")})
	play(t, l, proving(), steps, func(t *testing.T, s *script) {
		digest := digestOf([3]string{"a", "a", "11"}, [3]string{"b", "b", "6"}, [3]string{"c", "c", "7"})
		expectProofs(t, l, `12 {"result":"equal","objects":3,"digest":"`+digest+`"}`)
	})
}

// Objects that differ are compared one by one, once as long as it is the same ones.
func TestAProofNamesWhatDiffers(t *testing.T) {
	l := resumed("10", "extra a 3", "same b 4", "stale c 5", "other d 6")
	server := []string{"missing e 7", "other f 6", "same b 4", "stale c 8"}
	different := step{want: provedAt("10").want, body: listed("10", "", server...)}
	steps := append(holds("10", "other d 6"), step{want: "watch rv=10", hang: true}, different, different, different,
		provedAt("10", "extra a 3", "same b 4", "stale c 5", "other d 6"))
	play(t, l, proving(), steps, func(t *testing.T, s *script) {
		digest := digestOf([3]string{"extra", "a", "3"}, [3]string{"same", "b", "4"}, [3]string{"stale", "c", "5"}, [3]string{"other", "d", "6"})
		known := `"objects":4,"digest":"` + digest + `"`
		differs := `10 {"result":"different",` + known + `,"missing":{"objects":1,"keys":["default/missing"]},` +
			`"stale":{"objects":2,"keys":["default/other","default/stale"]},"extra":{"objects":1,"keys":["default/extra"]}}`
		expectProofs(t, l, differs, differs, `10 {"result":"equal",`+known+`}`)
		if wait := s.wait(len(s.seen) - 1); wait < 50*time.Second {
			t.Errorf("the last proof came %s after the one before", wait)
		}
	})
}

// If updates may be left out, the exporter may know an older version: no difference. The watch waits once for the same objects.
func TestAProofOfAStreamWhoseUpdatesAreIgnored(t *testing.T) {
	l, o := resumed("10", "old a 3", "gone b 4"), proving()
	o.Masked = true
	server := step{want: provedAt("10").want, body: listed("10", "", "old a 8", "gone b 4")}
	lacks := step{want: server.want, body: listed("10", "", "old a 8")}
	steps := append(holds("10", "gone b 4"), step{want: "watch rv=10", hang: true}, server, server, server, lacks, lacks)
	play(t, l, o, steps, func(t *testing.T, s *script) {
		rest := `"objects":2,"digest":"` + digestOf([3]string{"old", "a", "3"}, [3]string{"gone", "b", "4"}) + `","masked":true,"older":1`
		older := `10 {"result":"equal",` + rest + `}`
		expectProofs(t, l, older, older, `10 {"result":"different",`+rest+`,"extra":{"objects":1,"keys":["default/gone"]}}`)
	})
}

// A list that can't be read is no difference.
func TestAProofThatCantBeMadeIsMadeLater(t *testing.T) {
	l, options := resumed("10", "a a 5"), proving()
	options.Proofs = 10 * time.Second
	ask := provedAt("10").want
	steps := append(holds("10", "a a 5"), step{want: "watch rv=10", hang: true},
		step{want: ask, status: 429, after: "50", body: failure(429, "TooManyRequests")},
		step{want: ask, status: 403, body: failure(403, "Forbidden")},
		step{want: ask, body: listed("10", "next")}, step{want: "list metadata continue=next limit=2", status: 410, body: gone("x")},
		step{want: ask, body: `{"kind":"ConfigMapList","metadata":{"resourceVersion":"10"},"items":[`, cut: true},
		provedAt("10", "a a 5"))
	play(t, l, options, steps, func(t *testing.T, s *script) {
		expectProofs(t, l, `10 {"result":"equal","objects":1,"digest":"`+digestOf([3]string{"a", "a", "5"})+`"}`)
		if wait := s.wait(4); wait < 45*time.Second {
			t.Errorf("tried again %s after a Retry-After of 50 s", wait)
		}
	})
}

func TestAServerThatIgnoresExactCantBeProven(t *testing.T) {
	l := resumed("10", "a a 5")
	newer := step{want: provedAt("10").want, body: listed("11", "", "a a 11")}
	steps := append(holds("10", "a a 5"), step{want: "watch rv=10", hang: true}, newer,
		step{want: newer.want, body: listed("12", "", "a a 12")})
	play(t, l, proving(), steps, func(t *testing.T, s *script) {
		if all := proofs(l.controls); len(all) != 1 || all[0].Proof.Result != change.ProofUnsupported {
			t.Errorf("proofs %+v, want one that says unsupported", all)
		}
	})
}

// While objects change as fast as they can, every proof is made and none finds a difference. Each proof is what folding the log up to
// its resourceVersion gives. KUBECDC_TEST_PROOFS is how many proofs are made.
func TestProofsWhileObjectsChange(t *testing.T) {
	enough := 20
	if n, err := strconv.Atoi(os.Getenv("KUBECDC_TEST_PROOFS")); err == nil {
		enough = n
	}
	k, ns := servers.Kube(t), servers.Namespace(t)
	w := newWriter(t, k.Config, 21, []string{ns})
	w.names = 60
	l, options := newLedger(), testOptions()
	options.Proofs, options.PageSize, options.Stored = 20*time.Millisecond, 20, true
	startStream(t, k.Config, change.NewStream(configMaps, ns, "", ""), options, l, &quietObserver{})
	l.awaitStarted(t)
	for made := 0; made < enough; {
		w.run(10)
		l.mu.Lock()
		made = len(proofs(l.controls))
		l.mu.Unlock()
	}
	changes, controls := l.snapshot()
	if strings.Contains(says(l), "?") || l.filled > 0 || len(gaps(controls)) > 0 {
		t.Errorf("contents were corrected, and none differed: %d stored, gaps %+v", l.filled, gaps(controls))
	}
	folded := folding{}
	for _, c := range proofs(controls) {
		for len(changes) > 0 && changes[0].ResourceVersion.Compare(c.ResourceVersion) <= 0 {
			folded.add(changes[0])
			changes = changes[1:]
		}
		digest := folded.digest()
		if c.Proof.Result != change.ProofEqual || digest.String() != c.Proof.Digest || digest.Objects != c.Proof.Objects {
			t.Fatalf("at %s the proof is %+v, the log's digest %s of %d objects", c.ResourceVersion, *c.Proof, digest, digest.Objects)
		}
	}
}

// folding is the last state of each object.
type folding map[string]change.Change

func (f folding) add(c change.Change) {
	delete(f, c.Key())
	if c.Op != change.Delete {
		f[c.Key()] = c
	}
}

func (f folding) digest() (d change.Digest) {
	for key, c := range f {
		d.Add(key, c.UID, c.ResourceVersion)
	}
	return d
}

// What the inventory has wrongly is found by the next proof, under a selector, of Events too, which have no bookmarks.
func TestAWrongInventoryIsFoundByAProof(t *testing.T) {
	k, ns := servers.Kube(t), servers.Namespace(t)
	client := kubernetes.NewForConfigOrDie(k.Config).CoreV1()
	for _, name := range []string{"one", "two", "three"} {
		must[*corev1.ConfigMap](t)(client.ConfigMaps(ns).Create(t.Context(), configMap(name, map[string]string{"app": "a"}), metav1.CreateOptions{}))
		must[*corev1.Event](t)(client.Events(ns).Create(t.Context(), event(ns, name), metav1.CreateOptions{}))
	}
	for _, stream := range []*change.Stream{change.NewStream(configMaps, ns, "app=a", ""), change.NewStream(eventsResource, ns, "", "")} {
		t.Run(stream.Resource.Plural, func(t *testing.T) {
			l, options := newLedger(), testOptions()
			stop := func() error { return nil }
			run := func() {
				_, stop = startStream(t, k.Config, stream, options, l, &quietObserver{})
			}
			run()
			l.await(t, "three objects", func() bool { return len(l.objects) == 3 && l.position != "" })
			_ = stop()
			delete(l.objects, ns+"/one")
			l.objects[ns+"/two"] = [2]string{l.objects[ns+"/two"][0], "1"}
			l.objects[ns+"/four"] = [2]string{l.objects[ns+"/three"][0], "2"}
			options.Proofs = time.Second
			run()
			l.await(t, "a proof", func() bool { return len(proofs(l.controls)) > 0 })
			_, controls := l.snapshot()
			p := proofs(controls)[0].Proof
			if p.Result != change.ProofDifferent || p.String() != "1 missing, 1 stale, 1 extra" || p.Missing.Keys[0] != ns+"/one" ||
				p.Stale.Keys[0] != ns+"/two" || p.Extra.Keys[0] != ns+"/four" {
				t.Errorf("the proof is %+v", p)
			}
		})
	}
}

package reflector_test

import (
	"encoding/json"
	"fmt"
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

func proving(o *reflector.Options) { o.Proofs, o.Quiet = time.Minute, time.Hour }

// provedAt is a list of identities at a version, as a proof asks for it.
func provedAt(version string, objects ...string) step {
	return step{want: "list metadata rv=" + version + " match=Exact limit=2", body: listed(version, "", objects...)}
}

// proved returns a check of results and differences, without times.
func proved(want ...string) func(*testing.T, *script) {
	return func(t *testing.T, s *script) {
		all := proofs(s.log.controls)
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
}

// digestOf returns what a proof says of objects that are "name uid version".
func digestOf(objects ...string) string {
	var d change.Digest
	for _, o := range objects {
		f := strings.Fields(o)
		d.Add("default/"+f[0], uid(f[1]), change.ResourceVersion(f[2]))
	}
	return fmt.Sprintf(`"objects":%d,"digest":"%s"`, len(objects), d)
}

func TestProofs(t *testing.T) {
	open, one := step{want: "watch rv=10", hang: true}, listed("10", "", "a a 5")
	four := []string{"extra a 3", "same b 4", "stale c 5", "other d 6"}
	different := step{want: provedAt("10").want, body: listed("10", "", "missing e 7", "other f 6", "same b 4", "stale c 8")}
	differs := `10 {"result":"different",` + digestOf(four...) + `,"missing":{"objects":1,"keys":["default/missing"]},` +
		`"stale":{"objects":2,"keys":["default/other","default/stale"]},"extra":{"objects":1,"keys":["default/extra"]}}`
	older, lacks := step{want: different.want, body: listed("10", "", "old a 8", "gone b 4")}, step{want: different.want, body: listed("10", "", "old a 8")}
	two := digestOf("old a 3", "gone b 4") + `,"masked":true,"older":1`
	later := func(s step, pause time.Duration) step { s.pause = pause; return s }
	playAll(t, []scripted{
		{name: "reads the collection in pages, as it was at the stream's position", log: resumed("10", "a a 5", "b b 6", "c c 7"),
			options: proving,
			steps: append(holds("12", "c c 7"), step{want: "watch rv=10", body: modified("a a 11") + bookmark("12"), hang: true},
				step{want: "list metadata rv=12 match=Exact limit=2", body: listed("12", "next", "a a 11", "b b 6")},
				step{want: "list metadata continue=next limit=2", body: listed("12", "", "c c 7")}),
			inspect: proved(`12 {"result":"equal",` + digestOf("a a 11", "b b 6", "c c 7") + `}`)},
		{name: "compares objects that differ one by one, once as long as it is the same ones", log: resumed("10", four...),
			options: proving,
			steps:   append(holds("10", "other d 6"), open, different, different, different, later(provedAt("10", four...), 50*time.Second)),
			inspect: proved(differs, differs, `10 {"result":"equal",`+digestOf(four...)+`}`)},
		// The exporter may know an older version: no difference. The watch waits once for the same objects.
		{name: "if updates may be left out", log: resumed("10", "old a 3", "gone b 4"),
			options: func(o *reflector.Options) { proving(o); o.Masked = true },
			steps:   append(holds("10", "gone b 4"), open, older, older, older, lacks, lacks),
			inspect: proved(`10 {"result":"equal",`+two+`}`, `10 {"result":"equal",`+two+`}`,
				`10 {"result":"different",`+two+`,"extra":{"objects":1,"keys":["default/gone"]}}`)},
		{name: "a list that can't be read is no difference", log: resumed("10", "a a 5"),
			options: func(o *reflector.Options) { proving(o); o.Proofs = 10 * time.Second },
			steps: append(holds("10", "a a 5"), open,
				step{want: different.want, status: 429, after: "50", body: failure(429, "TooManyRequests")},
				later(step{want: different.want, status: 403, body: failure(403, "Forbidden")}, 45*time.Second),
				step{want: different.want, body: listed("10", "next")}, step{want: "list metadata continue=next limit=2", status: 410, body: gone("x")},
				step{want: different.want, body: `{"kind":"ConfigMapList","metadata":{"resourceVersion":"10"},"items":[`, cut: true},
				step{want: different.want, body: one}),
			inspect: proved(`10 {"result":"equal",` + digestOf("a a 5") + `}`)},
		{name: "a server that ignores Exact", log: resumed("10", "a a 5"), options: proving,
			steps: append(holds("10", "a a 5"), open,
				step{want: different.want, body: listed("11", "", "a a 11")}, step{want: different.want, body: listed("12", "", "a a 12")}),
			inspect: func(t *testing.T, s *script) {
				if all := proofs(s.log.controls); len(all) != 1 || all[0].Proof.Result != change.ProofUnsupported {
					t.Errorf("proofs %+v, want one that says unsupported", all)
				}
			}},
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

package reflector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kubecdc/change"
	"kubecdc/source/reflector"
	"kubecdc/test/servers"
)

// otherwise is an object with another body at the same version.
func otherwise(o string) string { return strings.Replace(obj(o), `"k":"`, `"k":"other `, 1) }

// A proof corrects a body that differs from the checkpoint's at that version, after a gap record with the reason. It stores a body that
// the checkpoint lacks. It leaves a stub, and a body of another version, as they are.
func TestAProofComparesContents(t *testing.T) {
	l := resumed("10", "a a 5", "b b 6", "c c 7", "d d 8", "e e 9")
	l.bodies = map[string]string{"default/a": obj("a a 5"), "default/b": otherwise("b b 6"), "default/d": obj("d d 4"),
		"default/c": string(must[[]byte](t)(change.Stub([]byte(obj("c c 7")))))}
	all := listed("10", "", "a a 5", "b b 6", "c c 7", "d d 8", "e e 9")
	proof, bodies := step{want: "list metadata rv=10 match=Exact limit=10", body: all}, step{want: "list rv=10 match=Exact limit=10", body: all}
	play(t, scripted{log: l, options: func(o *reflector.Options) { proving(o); o.PageSize, o.Stored = 10, true },
		steps: append(holds("10", "e e 9"), step{want: "watch rv=10", hang: true}, proof, bodies, bodies,
			step{want: "list fields=metadata.name=b", body: listed("10", "", "b b 6")}, proof, bodies),
		want: "u b@6? at 10, proof, gap 10-10 complete, proof", inspect: func(t *testing.T, _ *script) {
			if g := gaps(l.controls)[0]; g.Reason == "" || l.changes[0].Gap != g.ID || l.filled != 1 || l.bodies["default/e"] != obj("e e 9") {
				t.Errorf("gap %+v, %d bodies stored, one is %s", g, l.filled, l.bodies["default/e"])
			}
		}})
}

// While two API servers show an object differently, each proof may see another body: it is corrected once in fifty proofs.
func TestServersThatDifferCauseOneCorrection(t *testing.T) {
	l := resumed("10", "a a 5")
	l.bodies["default/a"] = obj("a a 5")
	one, two := listed("10", "", "a a 5"), strings.Replace(listed("10", "", "a a 5"), obj("a a 5"), otherwise("a a 5"), 1)
	all := append(holds("10", "a a 5"), step{want: "watch rv=10", hang: true})
	for i := range 6 {
		all = append(all, provedAt("10", "a a 5"), step{want: "list rv=10 match=Exact limit=2", body: []string{two, one}[i%2]})
		if i == 0 {
			all = append(all, step{want: "list fields=metadata.name=a", body: two})
		}
	}
	play(t, scripted{log: l, options: func(o *reflector.Options) { proving(o); o.Stored = true }, steps: all, want: "u a@5? at 10, proof, gap 10-10 complete, proof, proof, proof, proof, proof"})
}

// Bodies in the checkpoint are changed, dropped or replaced by stubs, without the exporter's knowledge, while objects change. After some
// proofs all bodies are the server's, except for the stubs. Each of the others was corrected once, and nothing else was written.
func TestRandomContentsBecomeTheServers(t *testing.T) {
	modelled(t, 100, func(t *testing.T, random *rand.Rand) {
		m := newModelServer(random)
		options := testOptions()
		options.Recovery, options.Proofs = nil, 10*time.Second
		s := newModelStream(t, m, "configmaps", options)
		s.options.Stored = true
		m.write(10, "configmaps")
		s.start()
		defer func() { _ = s.stop() }()
		for range 5 {
			m.write(random.IntN(4), "configmaps", "others")
			s.restart() // another process knows nothing of what was corrected
			m.settled(t, []*modelStream{s})
			time.Sleep(time.Duration(random.IntN(30)) * time.Second)
			changed, stubs := map[string]bool{}, map[string]bool{}
			s.log.mu.Lock()
			s.log.changes, s.log.controls = nil, nil
			for key, body := range s.log.bodies {
				switch random.IntN(6) {
				case 0:
					s.log.bodies[key], changed[key] = strings.Replace(body, `"k":"`, `"k":"x`, 1), true
				case 1:
					s.log.bodies[key] = ""
				case 2:
					s.log.bodies[key], stubs[key] = string(must[[]byte](t)(change.Stub([]byte(body)))), true
				}
			}
			s.log.mu.Unlock()
			time.Sleep(2 * time.Minute)
			s.log.mu.Lock()
			for _, c := range s.log.changes {
				if !changed[c.Key()] || !c.Inferred || c.Op != change.Update {
					t.Errorf("the log says %q", says(s.log))
				}
				delete(changed, c.Key())
			}
			for _, o := range m.writesAt("configmaps", m.now) {
				if key := "default/" + o.name; s.log.bodies[key] != o.object() && !stubs[key] {
					t.Errorf("the checkpoint has %s, the server %s", s.log.bodies[key], o.object())
				}
			}
			if len(changed) > 0 {
				t.Errorf("not corrected: %v", changed)
			}
			for key := range stubs {
				delete(s.log.bodies, key)
			}
			s.log.mu.Unlock()
		}
	})
}

// While the exporter is stopped, a CRD gets a default for a member, which all objects then have at the versions that the log has. The
// log also lacks another member of one object, as after a stop right after a change of the schema. The first proof corrects all of them,
// once.
func TestADefaultThatACRDGetsWhileTheExporterIsStopped(t *testing.T) {
	k, ns := servers.Kube(t), servers.Namespace(t)
	r := change.Resource{Group: ns + ".example.com", Version: "v1", Plural: "widgets", Kind: "Widget", Namespaced: true}
	client := dynamic.NewForConfigOrDie(k.Config)
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	widgets := client.Resource(schema.GroupVersionResource{Group: r.Group, Version: "v1", Resource: "widgets"}).Namespace(ns)
	made := must[*unstructured.Unstructured](t)(crds.Create(t.Context(), withMembers(crd(r.Group, []string{"v1"}, "v1"), 2), metav1.CreateOptions{}))
	t.Cleanup(func() { _ = crds.Delete(context.Background(), made.GetName(), metav1.DeleteOptions{}) })
	for i := range 5 {
		must[*unstructured.Unstructured](t)(waitAndCreate(t, widgets, &unstructured.Unstructured{Object: map[string]any{"apiVersion": r.APIVersion(),
			"kind": "Widget", "metadata": map[string]any{"name": fmt.Sprintf("w%d", i)}, "m2": "y"}}))
	}
	l, options := newLedger(), testOptions()
	options.Stored = true
	stream := change.NewStream(r, ns, "", "")
	_, stop := startStream(t, k.Config, stream, options, l, &quietObserver{})
	l.await(t, "five objects", func() bool { return len(l.objects) == 5 && l.position != "" })
	_ = stop()
	made = must[*unstructured.Unstructured](t)(crds.Get(t.Context(), made.GetName(), metav1.GetOptions{}))
	versions, _, _ := unstructured.NestedSlice(made.Object, "spec", "versions")
	for _, v := range versions {
		mustDo(t, unstructured.SetNestedField(v.(map[string]any), "x", "schema", "openAPIV3Schema", "properties", "m1", "default"))
	}
	mustDo(t, unstructured.SetNestedSlice(made.Object, versions, "spec", "versions"))
	must[*unstructured.Unstructured](t)(crds.Update(t.Context(), made, metav1.UpdateOptions{}))
	for range 300 { // the API server takes a moment
		if o := must[*unstructured.Unstructured](t)(widgets.Get(t.Context(), "w0", metav1.GetOptions{})); o.Object["m1"] == "x" {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	l.bodies[ns+"/w3"] = strings.Replace(l.bodies[ns+"/w3"], `,"m2":"y"`, "", 1)
	first := len(l.changes)
	options.Proofs = 100 * time.Millisecond
	startStream(t, k.Config, stream, options, l, &quietObserver{})
	l.await(t, "ten proofs", func() bool { return len(proofs(l.controls)) >= 10 })
	changes, controls := l.snapshot()
	for _, c := range proofs(controls) {
		if c.Proof.Result != change.ProofEqual {
			t.Errorf("a proof says %+v", c.Proof)
		}
	}
	written := slices.DeleteFunc(gaps(controls), func(g change.Gap) bool { return !strings.Contains(g.ID, ":contents:") })
	corrected := map[string]bool{}
	for _, c := range changes[first:] {
		var o map[string]any
		mustDo(t, json.Unmarshal(c.After, &o))
		if corrected[c.Name] || !c.Inferred || c.Op != change.Update || c.Gap != written[0].ID || o["m1"] != "x" || o["m2"] != "y" {
			t.Errorf("%s %s of gap %q: %s", c.Op, c.Name, c.Gap, c.After)
		}
		corrected[c.Name] = true
	}
	if len(corrected) != 5 || len(written) != 1 || !written[0].Complete {
		t.Errorf("corrected %v, gaps %+v", corrected, gaps(controls))
	}
}

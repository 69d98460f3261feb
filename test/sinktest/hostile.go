package sinktest

import (
	"testing"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/test/hostile"
)

// hostileChanges creates an object with each odd name, and one with each odd content.
func hostileChanges() (created []change.Change) {
	add := func(name, content string) {
		n := len(created) + 1
		c := change.Change{Stream: pods, Op: change.Create, Namespace: "default", Name: name, UID: hostile.UID(n),
			ResourceVersion: change.ResourceVersion(hostile.Version(n)), Time: began}
		c.After = hostile.Object("v1", "Pod", c.Namespace, name, c.UID, string(c.ResourceVersion), content)
		c.Provenance = change.Provenance{Managers: []byte("kubectl"), Fields: []byte("spec." + name)}
		created = append(created, c)
	}
	for _, name := range hostile.Names() {
		add(name.Text, `{"a":1}`)
	}
	for i, content := range hostile.Contents() {
		add("content-"+hostile.Version(i), content.Text)
	}
	return created
}

// hostileObjects checks that an object with any name and content is in the log, and that others are, too. Its update and its
// delete are there, too.
func hostileObjects(t *testing.T, w *world) {
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	created := hostileChanges()
	first := ofPods(1, 1, append(created, object("a", 10))...)
	known := w.write(t, log, first)
	var second, live []change.Change
	for i, c := range created {
		next := c
		next.Op, next.Before, next.ResourceVersion = change.Update, c.After, change.ResourceVersion(hostile.Version(1000+i))
		if i%2 == 0 {
			next = gone(next)
		} else {
			live = append(live, next)
		}
		second = append(second, next)
	}
	b := ofPods(1, 2, second...)
	b.Malformed = []change.Malformed{{Stream: "pods", Bytes: created[0].After, Reason: "its name is " + created[0].Name}}
	b.Controls = []change.Control{{Type: change.ControlProof, Cluster: Name, Stream: "pods", TimeMs: began.UnixMilli(), Cause: created[0].Name,
		Proof: &change.Proof{Result: change.ProofDifferent, Missing: change.Differing{Objects: 1, Keys: []string{created[0].Key()}}}}}
	w.write(t, log, b)

	_, recovered := w.open(t, slot, 2, sinks.Durable{})
	wantBatches(t, recovered, first, b)
	log, recovered = w.open(t, slot, 3, sinks.Durable{Seq: 1, Offsets: known})
	wantBatches(t, recovered, b)
	w.write(t, log, ofPods(3, 3, object("a", 5000)))
	_, _, objects := w.state(t, slot, 4, everything)
	wantObjects(t, objects, append(live, object("a", 5000))...)
	if w.place.Reader != nil {
		readHostile(t, w.reader(t), created)
	}
}

// readHostile checks that the reader finds each object by its name.
func readHostile(t *testing.T, r sinks.Reader, created []change.Change) {
	for i, c := range created {
		found := read(t, r, sinks.Query{Resources: []string{"pods"}, Namespace: c.Namespace, Name: c.Name})
		if len(found) != 2 || found[0].Name != c.Name || found[1].Name != c.Name || (found[1].Op == change.Delete) != (i%2 == 0) {
			t.Errorf("%.60q: the log has %d changes of it", c.Name, len(found))
		}
	}
}

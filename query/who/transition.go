package who

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/sinks"
)

// transition is what a change shows about the request that made it. It holds no memory of the change.
type transition struct {
	op change.Op
	identity
	uid             string
	before, version change.ResourceVersion // before is empty if it is unknown, or if nothing existed before
	was, now        marks                  // the object before and after
	knowsWas        bool                   // was is known
	labels          labels.Set             // labels of the deleted object
	managers        []string
	happened, seen  time.Time // happened is the second in which it happened, or zero if the object does not record it
	since           time.Time // when the change before it happened; zero: not known
	late            bool      // it may have happened long before it was seen
	same            bool      // only the version differs
	several         bool      // it may stand for several changes
	stale           bool      // was may be older: an update after it may have been left out
	unproven        bool      // the log does not prove that it is a single change since a request
	selected        bool      // the stream has selectors: updates move objects into and out of it
}

type identity struct{ resource, namespace, name string }

// marks decide which requests can change an object. The last two concern a Pod: it has a node, and it is disrupted, for example
// by an eviction.
type marks struct{ deleting, finalizers, bound, disrupted bool }

func marksOf(body []byte) marks {
	metadata, spec := rawjson.Member(body, "metadata"), rawjson.Member(body, "spec")
	return marks{deleting: rawjson.Member(metadata, "deletionTimestamp") != nil, bound: rawjson.Member(spec, "nodeName") != nil,
		// spec.finalizers are a namespace's
		finalizers: hasItems(rawjson.Member(metadata, "finalizers")) || hasItems(rawjson.Member(spec, "finalizers")),
		disrupted:  bytes.Contains(rawjson.Member(rawjson.Member(body, "status"), "conditions"), []byte(`"DisruptionTarget"`))}
}

// sameBut reports whether two states differ only in their version.
func sameBut(before, after []byte, oldVersion, newVersion change.ResourceVersion) bool {
	const name = `"resourceVersion":"`
	i := bytes.Index(before, []byte(name+string(oldVersion)+`"`))
	return i >= 0 && len(after) >= i && bytes.Equal(before[:i], after[:i]) &&
		bytes.HasPrefix(after[i:], []byte(name+string(newVersion)+`"`)) &&
		bytes.Equal(before[i+len(name)+len(oldVersion):], after[i+len(name)+len(newVersion):])
}

func hasItems(list []byte) bool { return len(bytes.TrimSpace(list)) > len("[]") }

// last is what a change of an object records for the next change of the object.
type last struct {
	uid      string
	version  change.ResourceVersion
	happened time.Time
	seen     time.Time
	gap      string
	asked    *Who // who requested its deletion, once that has begun
	marks
}

func identityOf(l *sinks.Logged) identity {
	return identity{change.ResourceOf(l.Stream.ID()).ID(), strings.Clone(l.Namespace), strings.Clone(l.Name)}
}

// transitionOf returns the transition of a change. If the log has no before-image, it uses what the previous change recorded.
func transitionOf(l *sinks.Logged, o identity, earlier last) *transition {
	t := &transition{op: l.Op, identity: o, uid: strings.Clone(l.UID),
		version: change.ResourceVersion(strings.Clone(string(l.ResourceVersion))),
		now:     marksOf(l.After), seen: l.Time, late: l.Gap != "", several: l.Inferred, managers: l.Provenance.ManagerNames(),
		selected: l.Stream.LabelSelector != "" || l.Stream.FieldSelector != ""}
	if happened := l.Provenance.Time; !happened.IsZero() && (l.Op == change.Update || l.Op == change.Create && !t.selected) {
		t.happened = happened
	}
	if earlier.uid == l.UID {
		t.since = earlier.happened
	}
	switch {
	case l.Op == change.Create:
	case l.Before != nil && !change.IsStub(l.Before):
		t.before, t.was, t.knowsWas = sinks.VersionOf(l.Before), marksOf(l.Before), true
		t.same = sameBut(l.Before, l.After, t.before, t.version)
		if l.Op == change.Delete || t.begins() {
			t.labels = sinks.LabelsOf(l.Before)
		}
	case earlier.uid == l.UID:
		t.before, t.was, t.knowsWas = earlier.version, earlier.marks, true
	}
	return t
}

// deletes reports whether the change is a deletion, or begins one.
func (t *transition) deletes() bool { return t.op == change.Delete || t.begins() }

func (t *transition) begins() bool { return t.op == change.Update && t.now.deleting && !t.was.deleting }

// fits reports whether a request of this kind can have made the change.
func (t *transition) fits(r *audit.Record) bool {
	deletion := r.Verb == "delete" || r.Verb == "deletecollection" || r.Verb == "create" && r.Subresource == "eviction"
	creation := r.Created || r.Verb == "create" && r.Subresource == ""
	switch {
	case r.UID != "" && r.UID != t.uid:
		return false
	case r.Subresource == "binding":
		return t.op == change.Update && (t.several || !t.knowsWas || t.now.bound && !t.was.bound)
	case r.Subresource == "eviction" && t.op == change.Update && t.now.disrupted && !t.was.disrupted:
		return true // an eviction writes its reason before it deletes
	case t.op == change.Create:
		return creation || t.selected && !deletion
	case creation:
		return t.several && t.op == change.Update
	case t.several || !t.knowsWas:
		return true
	case t.op == change.Delete && !t.was.deleting:
		return deletion || t.selected
	case t.op == change.Delete:
		return !deletion || !t.was.finalizers // the object exists until the last finalizer is removed, by whoever removes it
	case t.begins():
		return deletion
	}
	return !deletion || t.was.deleting // a second deletion may shorten the grace period
}

// proves reports whether a request is known to have made the change: it wrote, from this version or to it.
func (t *transition) proves(r *audit.Record) bool {
	wrote := r.Effect == audit.Wrote || r.VersionBefore != "" && r.VersionAfter != "" && r.VersionBefore != r.VersionAfter
	switch {
	// a retried request may have had a third attempt that was not recorded
	case t.unproven || !r.Succeeded() || r.Retried || r.UID != t.uid:
		return false
	case t.op == change.Create:
		return r.Created && !t.selected
	case r.Subresource == "binding":
		return t.op == change.Update && t.knowsWas && t.now.bound && !t.was.bound // a Pod is bound once
	case t.before == "":
		return false
	case r.VersionBegan == t.before && r.VersionBefore == t.version && t.op == change.Update:
		return true
	case r.Verb == "delete" && r.VersionBefore == "" && r.Effect == "":
		// a deletion without a grace period is one request
		return t.op == change.Delete && t.knowsWas && !t.was.deleting && !t.selected && !t.stale
	case !wrote || r.VersionBefore != t.before:
		return false
	// another request may have made this change, and this one the next
	case r.Effect == audit.Wrote && audit.Alike(t.before, t.version):
		return false
	}
	return t.op != change.Update || t.version.Compare(t.before) > 0 && (r.VersionAfter == "" || r.VersionAfter == t.version)
}

// allows reports whether the versions permit that a request made the change.
func (t *transition) allows(r *audit.Record) bool {
	written, after := r.VersionBefore, r.VersionAfter
	switch {
	case r.Effect == audit.Nothing, r.Effect == audit.Idle && !t.same:
		return false
	case after != "" && after == written && !(t.op == change.Delete && (t.several || t.was.deleting && t.was.finalizers)):
		return false // it wrote nothing. One that removes the last finalizer has such an answer, too
	case written != "" && r.VersionBegan == t.before && written == t.version:
		return true
	case after != "" && t.op == change.Update && r.Verb != "delete" &&
		(after.Compare(t.version) > 0 || !t.several && after != t.version):
		return false
	case written == "":
		return true
	case written.Compare(t.version) >= 0 && t.op != change.Delete:
		return false
	case t.several:
		return written.Compare(t.before) >= 0
	}
	return t.before == "" || written == t.before
}

// window returns the time after which the request was answered, and the time by which it was received.
func (t *transition) window() (from, to time.Time) {
	const (
		second = time.Second
		skew   = 5 * time.Second  // difference of the exporter's clock
		delay  = 30 * time.Second // how long a watch takes to deliver
	)
	switch {
	case !t.happened.IsZero() && !t.several:
		return t.happened.Add(-second), t.happened.Add(2 * second)
	case (t.late || t.several) && t.since.IsZero():
		return time.Time{}, t.seen.Add(skew)
	case t.late || t.several:
		return t.since.Add(-skew), t.seen.Add(skew)
	}
	return t.seen.Add(-delay), t.seen.Add(skew)
}

func filter(requests []*audit.Record, matches func(*audit.Record) bool) (found []*audit.Record) {
	for _, r := range requests {
		if matches(r) {
			found = append(found, r)
		}
	}
	return found
}

// selectedBy reports whether the selectors of a deletecollection can have selected the object.
func (t *transition) selectedBy(r *audit.Record) bool {
	byLabels, err := labels.Parse(r.Labels)
	if err == nil && t.labels != nil && !byLabels.Matches(t.labels) {
		return false
	}
	byFields, err := fields.ParseSelector(r.Fields)
	if err != nil {
		return true
	}
	for _, required := range byFields.Requirements() {
		value, known := map[string]string{"metadata.name": t.identity.name,
			"metadata.namespace": t.identity.namespace}[required.Field]
		if known && (value == required.Value) == (required.Operator == selection.NotEquals) {
			return false
		}
	}
	return true
}

// managed returns the requests whose field manager the object names. It returns all requests for a deletion, or if the object
// names none of their managers. It also returns all if the transition stands for several changes, since the last one may have
// changed no manager.
func (t *transition) managed(requests []*audit.Record) (found []*audit.Record) {
	for _, r := range requests {
		program, _, _ := strings.Cut(r.UserAgent, "/") // the API server's default field manager
		if slices.Contains(t.managers, cmp.Or(r.Manager, program)) {
			found = append(found, r)
		}
	}
	if len(found) == 0 || t.deletes() || t.several {
		return requests
	}
	return found
}

// byManagers returns what is known without a request.
func (t *transition) byManagers() *Who {
	if len(t.managers) > 0 {
		return &Who{Grade: Manager}
	}
	return &Who{Grade: Unknown}
}

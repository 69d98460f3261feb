package query

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

// transition is what of a change tells which request made it. It holds nothing of the change.
type transition struct {
	op change.Op
	identity
	uid             string
	before, version change.ResourceVersion // before is empty where it is not known, or nothing was before
	was, is         marks                  // of the object before and after
	knows           bool                   // was
	labels          labels.Set             // of what is deleted
	managers        []string
	at, seen        time.Time // at: a whole second in which it happened; zero: the object does not tell
	since           time.Time // when the change before happened; zero: not known
	late            bool      // it was found in a gap
	same            bool      // nothing but its version differs
	several         bool      // it may stand for several changes
	selected        bool      // of a stream with selectors: objects enter it and leave it by updates
}

type identity struct{ resource, namespace, name string }

// marks is what of a state decides what a request can do to it. The last two are a Pod's: it has a node, and is disrupted, as by an eviction.
type marks struct{ deleting, finalizers, bound, disrupted bool }

func marksOf(body []byte) marks {
	metadata, spec := rawjson.Member(body, "metadata"), rawjson.Member(body, "spec")
	return marks{deleting: rawjson.Member(metadata, "deletionTimestamp") != nil, bound: rawjson.Member(spec, "nodeName") != nil,
		finalizers: hasItems(rawjson.Member(metadata, "finalizers")) || hasItems(rawjson.Member(spec, "finalizers")), // the latter are a namespace's
		disrupted:  bytes.Contains(rawjson.Member(rawjson.Member(body, "status"), "conditions"), []byte(`"DisruptionTarget"`))}
}

// sameBut reports whether two states differ in their version alone.
func sameBut(before, after []byte, was, is change.ResourceVersion) bool {
	const name = `"resourceVersion":"`
	at := bytes.Index(before, []byte(name+string(was)+`"`))
	return at >= 0 && len(after) >= at && bytes.Equal(before[:at], after[:at]) && bytes.HasPrefix(after[at:], []byte(name+string(is)+`"`)) &&
		bytes.Equal(before[at+len(name)+len(was):], after[at+len(name)+len(is):])
}

func hasItems(list []byte) bool { return len(bytes.TrimSpace(list)) > len("[]") }

// last is what a change leaves of an object for the next one.
type last struct {
	uid     string
	version change.ResourceVersion
	at      time.Time
	marks
}

func identityOf(l *sinks.Logged) identity {
	return identity{change.ResourceOf(l.Stream.ID()).ID(), strings.Clone(l.Namespace), strings.Clone(l.Name)}
}

// transitionOf needs what the change before has left where the log has no before-image.
func transitionOf(l *sinks.Logged, o identity, earlier last) *transition {
	t := &transition{op: l.Op, identity: o, uid: strings.Clone(l.UID), version: change.ResourceVersion(strings.Clone(string(l.ResourceVersion))),
		is: marksOf(l.After), seen: l.Time, late: l.Gap != "", several: l.Inferred, managers: managersOf(&l.Change),
		selected: l.Stream.LabelSelector != "" || l.Stream.FieldSelector != ""}
	if at := l.Provenance.Time; !at.IsZero() && (l.Op == change.Update || l.Op == change.Create && !t.selected) {
		t.at = at
	}
	if earlier.uid == l.UID {
		t.since = earlier.at
	}
	switch {
	case l.Op == change.Create:
	case l.Before != nil && !change.IsStub(l.Before):
		t.before, t.was, t.knows = versionOf(l.Before), marksOf(l.Before), true
		t.same = sameBut(l.Before, l.After, t.before, t.version)
		if l.Op == change.Delete || t.begins() {
			t.labels = sinks.LabelsOf(l.Before)
		}
	case earlier.uid == l.UID:
		t.before, t.was, t.knows = earlier.version, earlier.marks, true
	}
	return t
}

// deletes reports whether the change is a deletion, or the beginning of one.
func (t *transition) deletes() bool { return t.op == change.Delete || t.begins() }

func (t *transition) begins() bool { return t.op == change.Update && t.is.deleting && !t.was.deleting }

// fits reports whether a request can have made the change, by what it asked for.
func (t *transition) fits(r *audit.Record) bool {
	deletion := r.Verb == "delete" || r.Verb == "deletecollection" || r.Verb == "create" && r.Subresource == "eviction"
	creation := r.Created || r.Verb == "create" && r.Subresource == ""
	switch {
	case r.UID != "" && r.UID != t.uid:
		return false
	case r.Subresource == "binding":
		return t.op == change.Update && (t.several || !t.knows || t.is.bound && !t.was.bound)
	case r.Subresource == "eviction" && t.op == change.Update && t.is.disrupted && !t.was.disrupted:
		return true // it writes why before it deletes
	case t.op == change.Create:
		return creation || t.selected && !deletion
	case creation:
		return t.several && t.op == change.Update
	case t.several || !t.knows:
		return true
	case t.op == change.Delete && !t.was.deleting:
		return deletion || t.selected
	case t.op == change.Delete:
		return !deletion || !t.was.finalizers // finalizers outlive every deletion: who removes the last one ends it
	case t.begins():
		return deletion
	}
	return !deletion || t.was.deleting // a second deletion may shorten the first one
}

// proves reports whether a request is known to have made the change: it wrote, and on this version, or to this one.
func (t *transition) proves(r *audit.Record) bool {
	wrote := r.Effect == audit.Wrote || r.VersionBefore != "" && r.VersionAfter != "" && r.VersionBefore != r.VersionAfter
	switch {
	case t.several || !r.Succeeded() || r.Retried || r.UID != t.uid: // of several attempts a third one may not be told
		return false
	case t.op == change.Create:
		return r.Created && !t.selected
	case r.Subresource == "binding":
		return t.op == change.Update && t.knows && t.is.bound && !t.was.bound // a Pod is bound once
	case t.before == "":
		return false
	case r.VersionBegan == t.before && r.VersionBefore == t.version && t.op == change.Update:
		return true
	case r.Verb == "delete" && r.VersionBefore == "" && r.Effect == "":
		return t.op == change.Delete && t.knows && !t.was.deleting // one that is not gradual has one request alone
	case !wrote || r.VersionBefore != t.before:
		return false
	case r.Effect == audit.Wrote && audit.Alike(t.before, t.version): // another one may have made this change, and this one the next
		return false
	}
	return t.op != change.Update || t.version.Compare(t.before) > 0 && (r.VersionAfter == "" || r.VersionAfter == t.version)
}

// allows reports whether the versions let a request have made the change.
func (t *transition) allows(r *audit.Record) bool {
	on, after := r.VersionBefore, r.VersionAfter
	switch {
	case r.Effect == audit.Nothing, r.Effect == audit.Idle && !t.same, after != "" && after == on:
		return false
	case on != "" && r.VersionBegan == t.before && on == t.version:
		return true
	case after != "" && t.op == change.Update && r.Verb != "delete" && (after.Compare(t.version) > 0 || !t.several && after != t.version):
		return false
	case on == "":
		return true
	case on.Compare(t.version) >= 0 && t.op != change.Delete:
		return false
	case t.several:
		return on.Compare(t.before) >= 0
	}
	return t.before == "" || on == t.before
}

// window is from when on the request was answered, and by when it had come.
func (t *transition) window() (from, to time.Time) {
	const (
		second = time.Second
		skew   = 5 * time.Second  // of the exporter's clock
		delay  = 30 * time.Second // within which a watch delivers
	)
	switch {
	case !t.at.IsZero() && !t.several:
		return t.at.Add(-second), t.at.Add(2 * second)
	case (t.late || t.several) && t.since.IsZero():
		return time.Time{}, t.seen.Add(skew)
	case t.late || t.several:
		return t.since.Add(-skew), t.seen.Add(skew)
	}
	return t.seen.Add(-delay), t.seen.Add(skew)
}

func among(requests []*audit.Record, is func(*audit.Record) bool) (found []*audit.Record) {
	for _, r := range requests {
		if is(r) {
			found = append(found, r)
		}
	}
	return found
}

// selectedBy reports whether a deletecollection's selectors can have selected the object.
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
		value, known := map[string]string{"metadata.name": t.identity.name, "metadata.namespace": t.identity.namespace}[required.Field]
		if known && (value == required.Value) == (required.Operator == selection.NotEquals) {
			return false
		}
	}
	return true
}

// managed are those of requests whose field manager the object names; all, if there is none.
func (t *transition) managed(requests []*audit.Record) (found []*audit.Record) {
	for _, r := range requests {
		program, _, _ := strings.Cut(r.UserAgent, "/") // what the API server takes where a request names none
		if slices.Contains(t.managers, cmp.Or(r.Manager, program)) {
			found = append(found, r)
		}
	}
	if len(found) == 0 || t.deletes() {
		return requests
	}
	return found
}

// byManagers is what is known without a request.
func (t *transition) byManagers() *Who {
	if len(t.managers) > 0 {
		return &Who{Grade: Manager}
	}
	return &Who{Grade: Unknown}
}

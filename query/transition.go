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
	several         bool      // it may stand for several changes
	selected        bool      // of a stream with selectors: objects enter it and leave it by updates
}

type identity struct{ resource, namespace, name string }

// marks is what of a state decides what a request can do to it.
type marks struct{ deleting, finalizers bool }

func marksOf(body []byte) marks {
	metadata := rawjson.Member(body, "metadata")
	spec := rawjson.Member(rawjson.Member(body, "spec"), "finalizers") // a namespace's
	return marks{rawjson.Member(metadata, "deletionTimestamp") != nil, hasItems(rawjson.Member(metadata, "finalizers")) || hasItems(spec)}
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

// proves reports whether a request that fits is known to have made the change: it wrote, and on this version, or to this one.
func (t *transition) proves(r *audit.Record) bool {
	wrote := r.Effect == audit.Wrote || r.VersionBefore != "" && r.VersionAfter != "" && r.VersionBefore != r.VersionAfter ||
		r.Verb == "delete" && t.knows && !t.was.deleting && t.deletes()
	switch {
	case t.several || !r.Succeeded() || r.Retried: // of several attempts a third one may not be told
		return false
	case !t.at.IsZero() && (r.Answered.Before(t.at) || !r.Time.Before(t.at.Add(time.Second))):
		return false
	case t.op == change.Create:
		return r.Created && r.UID == t.uid && !t.selected
	case t.before == "" || !wrote:
		return false
	case r.Effect == audit.Wrote && audit.Alike(t.before, t.version): // another one may have made this change, and this one the next
		return false
	case r.VersionAfter != "" && t.op == change.Update && r.VersionAfter != t.version:
		return false
	case r.VersionBefore != "":
		return r.VersionBefore == t.before && (t.op != change.Update || t.version.Compare(t.before) > 0)
	}
	return r.UID != "" && t.op == change.Delete // one that is not gradual has one request alone
}

// allows reports whether the request's versions and times let it have made the change. The event of a request that the API
// server tried several times may tell a version too old: such ones count if stale.
func (t *transition) allows(r *audit.Record, stale bool) bool {
	switch {
	case r.Effect == audit.Nothing:
		return false
	case r.VersionAfter != "" && r.VersionAfter == r.VersionBefore:
		return false
	case r.VersionAfter != "" && t.op == change.Update && (r.VersionAfter.Compare(t.version) > 0 || !t.several && r.VersionAfter != t.version):
		return false
	case r.VersionBefore != "" && r.VersionBefore.Compare(t.version) >= 0 && t.op != change.Delete:
		return false
	case r.VersionBefore != "" && t.before != "" && r.VersionBefore != t.before && !t.several && !(stale && r.Retried),
		r.VersionBefore != "" && t.several && r.VersionBefore.Compare(t.before) < 0:
		return false
	}
	from, to := t.window()
	return !r.Answered.Before(from) && !r.Time.After(to)
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

// among are those of requests that fit.
func (t *transition) among(requests []*audit.Record, is func(*audit.Record) bool) (found []*audit.Record) {
	for _, r := range requests {
		if t.fits(r) && is(r) {
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

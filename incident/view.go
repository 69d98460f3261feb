// Package incident is what happened in a part of a log, for people who have an incident. It has the changes of specs and data
// with who made them. Changes that followed by themselves are folded. It knows no terminal.
package incident

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/query"
	"kubecdc/query/difference"
	"kubecdc/query/who"
	"kubecdc/sinks"
)

// View is what happened, by time.
type View struct {
	Entries []*Entry
	Unnamed map[change.Op]int // changes of Entries that nothing names the author of
}

// Entry is a change, or several that are folded.
type Entry struct {
	Time  time.Time
	Event *query.Event      // a change, without bodies, or nil
	Lines []difference.Line // what an update changed
	Cause string            // why an object was deleted, or empty
	Fold  *Fold             // several changes, or nil

	order    time.Time // its place by time: no change of an object comes after the next one
	deletion *who.Deletion
}

// Builder makes a view of changes, which it gets in the order of the log.
type Builder struct {
	User      string // only this user's changes
	AllFields bool   // also bookkeeping
	Stepwise  bool   // shows each step of a status, for example in a view of one object

	entries []*Entry
	objects map[string]*object // whose changes are folded, by uid
	owners  map[string]*owner  // by the uid of the owned object
	listed  []string           // uids of what the first lists found

	firstListed time.Time
	only        map[string]bool // by uid: objects that alone are shown with what they control. nil stands for all
}

// Add adds a change. Its event names who made it.
func (b *Builder) Add(l *sinks.Logged, e *query.Event) error {
	if b.objects == nil {
		b.objects, b.owners = map[string]*object{}, map[string]*owner{}
	}
	body := l.After
	if body == nil {
		body = e.Before
	}
	own := ownerOf(body)
	if own != nil {
		b.owners[e.UID] = own
	}
	if l.Op == change.Read && !b.isSubject() {
		b.addListed(e)
		return nil
	}
	if b.User != "" && l.Op != change.Delete && !e.By.Is(b.User) {
		return nil
	}
	now := &Entry{Time: e.Time, Event: e}
	if l.Op == change.Update && e.Before != nil && e.After != nil {
		var err error
		if now.Lines, err = b.lines(l, e); err != nil {
			return err
		}
	}
	if b.isSubject() {
		own = nil // shown for its own sake
	}
	if follows(l, e, now.Lines, own) && (b.User == "" || l.Op != change.Delete) {
		b.fold(e, l.After)
		return nil
	}
	if l.Op == change.Delete {
		now.deletion = who.DeletionOf(l, e.By)
	}
	e.Before, e.After = nil, nil
	b.entries = append(b.entries, now)
	return nil
}

// Only limits the view to the objects that were added so far, and what they control.
func (b *Builder) Only() {
	b.only = map[string]bool{}
	for _, o := range b.objects {
		b.only[o.uid] = true
	}
	for _, e := range b.entries {
		b.only[e.Event.UID] = true
	}
}

// isSubject reports whether the objects that are added are those that the view is about, and not what they control.
func (b *Builder) isSubject() bool { return b.Stepwise && b.only == nil }

// has reports whether an object is in the view.
func (b *Builder) has(uid string) bool {
	root := b.root(uid)
	return b.only == nil || b.only[uid] || root != nil && b.only[root.UID]
}

// lines returns what an update changed. It returns nil for a change of the status, which is known without a comparison.
func (b *Builder) lines(l *sinks.Logged, e *query.Event) ([]difference.Line, error) {
	if !b.AllFields && onlyStatus(string(l.Provenance.Fields)) {
		return nil, nil
	}
	return difference.Lines(e.Before, e.After, b.AllFields)
}

// onlyStatus reports whether a list of changed fields has only the status.
func onlyStatus(fields string) bool {
	for field := range strings.SplitSeq(fields, ",") {
		if !isStatus(field) {
			return false
		}
	}
	return true
}

func isStatus(path string) bool { return path == "status" || strings.HasPrefix(path, "status.") }

// isConsequence reports whether components write a field when another one changes: the status, a Pod's node, a Deployment's
// revision.
func isConsequence(line difference.Line) bool {
	const revision = `"deployment.kubernetes.io/revision"`
	switch path := line.Path; path {
	case "", "spec.nodeName", "metadata.annotations[" + revision + "]":
		return true
	case "metadata.annotations":
		return len(line.Parts) == 1 && strings.HasPrefix(line.Parts[0].Text, "{"+revision+":") &&
			!strings.Contains(line.Parts[0].Text, ",")
	default:
		return isStatus(path)
	}
}

// AreConsequences reports whether components write all fields of a difference when others change.
func AreConsequences(lines []difference.Line) bool {
	return !slices.ContainsFunc(lines, func(line difference.Line) bool { return !isConsequence(line) })
}

// consequences are resources that are made of others.
var consequences = []string{"endpoints", "endpointslices.discovery.k8s.io"}

// follows reports whether a change followed others by itself: a change of a status, or of an object that another object controls.
// It returns false if a person may have changed the controlled object.
func follows(l *sinks.Logged, e *query.Event, lines []difference.Line, own *owner) bool {
	consequent := l.Op == change.Update && e.Before != nil && AreConsequences(lines)
	return consequent || slices.Contains(consequences, e.Resource) || own != nil && !isPersons(e.By, e.Managers)
}

// isPersons reports whether a person may have made a change, or have asked for it. Users of components begin with "system:". If
// no user is known, only kubectl's field managers show a person.
func isPersons(w *who.Who, managers []string) bool {
	if isUnknown(w) {
		return slices.ContainsFunc(managers, func(name string) bool { return strings.HasPrefix(name, "kubectl") })
	}
	users := w.Users
	if w.User != "" {
		users = []string{w.User}
	}
	return slices.ContainsFunc(users, func(user string) bool { return !strings.HasPrefix(user, "system:") }) ||
		w.AskedBy != nil && isPersons(w.AskedBy, nil)
}

// begins reports whether an update is only the beginning of a deletion, or a step of it.
func begins(lines []difference.Line) bool {
	return len(lines) > 0 && !slices.ContainsFunc(lines,
		func(line difference.Line) bool { return !strings.HasPrefix(line.Path, "metadata.deletion") })
}

// End returns the view of all changes. It reads why objects were deleted.
func (b *Builder) End(ctx context.Context, r sinks.Reader) (*View, error) {
	v := &View{Unnamed: map[change.Op]int{}}
	setOrder(b.entries)
	var deletions []*who.Deletion
	gone := map[string]bool{}
	for _, e := range b.entries {
		if e.deletion != nil {
			deletions, gone[e.Event.UID] = append(deletions, e.deletion), true
		}
	}
	if err := who.Causes(ctx, r, deletions); err != nil {
		return nil, err
	}
	for _, e := range b.entries {
		if e.deletion != nil {
			e.Cause = e.deletion.Cause
		}
		switch {
		case !b.has(e.Event.UID):
			continue
		case e.deletion != nil && b.User != "" && !e.deletion.Requester.Is(b.User), begins(e.Lines) && gone[e.Event.UID]:
			continue
		case e.Cause != "" && b.owners[e.Event.UID] != nil && !b.Stepwise:
			b.fold(e.Event, nil)
			continue
		}
		if op, _ := change.ParseOp(e.Event.Op); e.Cause == "" && len(e.Event.Managers) == 0 && op != change.Read &&
			isUnknown(e.Event.By) {
			v.Unnamed[op]++
		}
		v.Entries = append(v.Entries, e)
	}
	v.foldAlike()
	for _, f := range b.folds() {
		v.Entries = append(v.Entries, entryOf(f))
	}
	slices.SortStableFunc(v.Entries, (*Entry).compare)
	return v, nil
}

func isUnknown(w *who.Who) bool {
	return w == nil || w.Grade == who.Manager || w.Grade == who.Unknown
}

// place returns the order of lines: first the objects that the first lists found, then the changes, and last the changes that no
// column shows.
func (e *Entry) place() int {
	switch {
	case e.Fold == nil:
		return 1
	case e.Fold.Listed:
		return 0
	case e.Fold.IsOther():
		return 2
	}
	return 1
}

// compare orders entries by time. Within one second, the actions of people come before the changes that followed, since objects
// have no finer times.
func (e *Entry) compare(other *Entry) int {
	isFold := func(e *Entry) int { return map[bool]int{true: 1}[e.Fold != nil] }
	order := cmp.Or(cmp.Compare(e.place(), other.place()), e.order.Compare(other.order), isFold(e)-isFold(other))
	if order != 0 || e.Fold == nil {
		return order // 0: in the order of the log
	}
	f, g := e.Fold, other.Fold
	return cmp.Or(f.First.Compare(g.First), cmp.Compare(f.Namespace, g.Namespace), cmp.Compare(f.Owner+f.Name, g.Owner+g.Name),
		cmp.Compare(f.Resource, g.Resource), cmp.Compare(f.Author+strings.Join(f.Fields, ","),
			g.Author+strings.Join(g.Fields, ",")))
}

// setOrder decides on the places of changes by their seconds. An undated change was seen after it happened, but it happened
// before the next one of its object.
func setOrder(entries []*Entry) {
	next := map[string]time.Time{}
	for _, e := range slices.Backward(entries) {
		e.order = e.Time.Truncate(time.Second)
		if following, ok := next[e.Event.UID]; ok && following.Before(e.order) {
			e.order = following
		}
		next[e.Event.UID] = e.order
	}
}

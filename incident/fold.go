package incident

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/internal/cells"
	"kubecdc/internal/rawjson"
	"kubecdc/internal/suggest"
	"kubecdc/query"
)

// Fold is a group of changes that followed by themselves. They are changes of one object's status, or of one owner's objects of
// one type.
type Fold struct {
	First     time.Time `json:"-"` // when the first change happened that people see, such as a deletion. Zero if IsOther
	Resource  string    `json:"resource,omitempty"`
	Namespace string    `json:"namespace,omitempty"`
	// empty for several objects, and Resource and Namespace for objects that do not share them
	Name    string   `json:"name,omitempty"`
	Owner   string   `json:"owner,omitempty"` // deploy/web, or empty
	Objects int      `json:"objects"`
	Created int      `json:"created,omitempty"`
	Deleted int      `json:"deleted,omitempty"`
	Updates int      `json:"updates,omitempty"`
	Status  []string `json:"status,omitempty"` // what the columns of kubectl get show: Running → CrashLoopBackOff
	Listed  bool     `json:"listed,omitempty"` // the first lists found the objects
	Author  string   `json:"author,omitempty"` // who made changes that are alike, to several objects
	Fields  []string `json:"fields,omitempty"` // that they changed
}

// owner is the object that controls another one.
type owner struct {
	APIVersion, Kind, Name, UID string
	Controller                  bool
}

// object is an object whose changes are folded.
type object struct {
	resource, namespace, name, uid string
	first, last                    []byte // the states between which the changes are
	created, deleted               bool
	updates                        int
	from, to                       time.Time
	shown                          time.Time // when the object was created or deleted, or its leading column changed, or zero
	seen                           []string  // what the leading column showed
	changed                        []string  // how the columns changed, once all changes are known. Nothing if it was deleted
}

// ownerOf returns the controller of an object, or nil.
func ownerOf(body []byte) *owner {
	raw := rawjson.Member(rawjson.Member(body, "metadata"), "ownerReferences")
	var all []owner
	if raw == nil || json.Unmarshal(raw, &all) != nil {
		return nil
	}
	if i := slices.IndexFunc(all, func(o owner) bool { return o.Controller }); i >= 0 {
		return &all[i]
	}
	return nil
}

func (b *Builder) addListed(e *query.Event) {
	if b.listed == nil {
		b.firstListed = e.Logged
	}
	b.listed = append(b.listed, e.UID)
}

// step is how long nothing changes between two steps of a status.
const step = 5 * time.Second

// fold adds a change to those of its object.
func (b *Builder) fold(e *query.Event, after []byte) {
	key := e.UID
	o := b.objects[key]
	if o != nil && b.isSubject() && e.Time.Sub(o.to) > step && len(transition(o)) > 0 { // the next step begins
		b.objects[fmt.Sprint(key, " ", len(b.objects))], o = o, nil
	}
	if o == nil {
		o = &object{resource: e.Resource, namespace: e.Namespace, name: e.Name, uid: e.UID, from: e.Time,
			first: bytes.Clone(e.Before)}
		o.see(o.first)
		b.objects[key] = o
	}
	o.to, o.last = e.Time, append(o.last[:0], after...)
	seen := len(o.seen)
	o.see(after)
	op, _ := change.ParseOp(e.Op)
	if o.shown.IsZero() && (op != change.Update || seen > 0 && len(o.seen) > seen) {
		o.shown = e.Time
	}
	switch op {
	case change.Create:
		o.created, o.first = true, nil
	case change.Delete:
		o.deleted = true
	default:
		o.updates++
	}
}

// root returns the owner of all that an object's owners are in, or nil.
func (b *Builder) root(uid string) (found *owner) {
	for range 5 {
		next := b.owners[uid]
		if next == nil {
			break
		}
		found, uid = next, next.UID
	}
	return found
}

// folds returns what followed by itself.
func (b *Builder) folds() (all []*Fold) {
	groups := map[string][]*object{}
	for key, o := range b.objects {
		if !b.has(o.uid) {
			continue
		}
		if !o.deleted {
			o.changed = transition(o)
		}
		if root := b.root(o.uid); root != nil {
			key = root.UID + " " + o.resource
		}
		groups[key] = append(groups[key], o)
	}
	b.gather(groups)
	for _, objects := range groups {
		slices.SortFunc(objects, func(x, y *object) int { return cmp.Or(x.from.Compare(y.from), cmp.Compare(x.name, y.name)) })
		f := &Fold{First: first(objects), Resource: objects[0].resource, Namespace: objects[0].namespace, Objects: len(objects)}
		if root := b.root(objects[0].uid); root != nil {
			f.Owner = root.text()
		}
		if len(objects) == 1 {
			f.Name = objects[0].name
		}
		for _, o := range objects {
			f.add(o)
		}
		f.Status = transitions(objects)
		all = append(all, f)
	}
	if !b.Stepwise {
		all = joinQuiet(all)
	}
	listed := slices.DeleteFunc(b.listed, func(uid string) bool { return !b.has(uid) })
	if len(listed) > 0 && b.User == "" {
		all = append(all, &Fold{First: b.firstListed, Objects: len(listed), Listed: true})
	}
	return all
}

// first returns when people first saw objects change, or else when they first changed. They are in the order of their first
// changes.
func first(objects []*object) (seen time.Time) {
	for _, o := range objects {
		if !o.shown.IsZero() && (seen.IsZero() || o.shown.Before(seen)) {
			seen = o.shown
		}
	}
	if seen.IsZero() {
		return objects[0].from
	}
	return seen
}

// IsOther reports whether a fold has all objects of which nobody sees a change.
func (f *Fold) IsOther() bool { return f.Resource == "" && !f.Listed }

// isQuiet reports whether nobody sees the changes in the columns of kubectl get.
func (f *Fold) isQuiet() bool { return len(f.Status) == 0 && f.Created == 0 && f.Deleted == 0 }

// joinQuiet joins what nobody sees into one fold without a time, as a cluster does it all the time.
func joinQuiet(all []*Fold) []*Fold {
	var seen, quiet []*Fold
	for _, f := range all {
		if f.isQuiet() {
			quiet = append(quiet, f)
		} else {
			seen = append(seen, f)
		}
	}
	if len(quiet) < 2 {
		return all
	}
	other := &Fold{Namespace: quiet[0].Namespace}
	for _, f := range quiet {
		if other.Objects, other.Updates = other.Objects+f.Objects, other.Updates+f.Updates; f.Namespace != other.Namespace {
			other.Namespace = ""
		}
	}
	return append(seen, other)
}

func entryOf(f *Fold) *Entry {
	return &Entry{Time: f.First, order: f.First.Truncate(time.Second), Fold: f}
}

// mostAlike is how many changes that are alike are shown one by one.
const mostAlike = 5

// alike is what the changes of one script have in common.
type alike struct{ op, resource, namespace, author, fields string }

// foldAlike folds the changes that somebody made to the same fields of several objects, or several times.
func (v *View) foldAlike() {
	groups := map[alike][]*Entry{}
	kindOf := func(e *Entry) alike {
		var fields []string
		for _, l := range e.Lines {
			if l.Path != "" {
				fields = append(fields, l.Path)
			}
		}
		return alike{e.Event.Op, e.Event.Resource, e.Event.Namespace, e.Event.By.Text(e.Event.Managers),
			strings.Join(fields, ", ")}
	}
	for _, e := range v.Entries {
		groups[kindOf(e)] = append(groups[kindOf(e)], e)
	}
	v.Entries = slices.DeleteFunc(v.Entries, func(e *Entry) bool { return len(groups[kindOf(e)]) > mostAlike })
	for a, all := range groups {
		if len(all) <= mostAlike {
			continue
		}
		f := &Fold{First: all[0].Time, Resource: a.resource, Namespace: a.namespace, Author: a.author,
			Fields: strings.Split(a.fields, ", ")}
		names := map[string]bool{}
		for _, e := range all {
			names[e.Event.Name] = true
			if e.Time.Before(f.First) {
				f.First = e.Time
			}
			switch op, _ := change.ParseOp(a.op); op {
			case change.Create:
				f.Created++
			case change.Delete:
				f.Deleted++
			default:
				f.Updates++
			}
		}
		f.Objects = len(names)
		v.Entries = append(v.Entries, entryOf(f))
	}
}

// gather joins objects of one type without an owner, if there are many in a namespace that people see change.
func (b *Builder) gather(groups map[string][]*object) {
	alone := map[string][]string{} // keys of groups, by type and namespace
	for key, objects := range groups {
		if o := objects[0]; b.root(o.uid) == nil && !b.Stepwise && (!o.shown.IsZero() || len(o.changed) > 0) {
			alone[o.resource+" "+o.namespace] = append(alone[o.resource+" "+o.namespace], key)
		}
	}
	for name, keys := range alone {
		for _, key := range keys {
			if len(keys) > mostAlike {
				groups[name] = append(groups[name], groups[key]...)
				delete(groups, key)
			}
		}
	}
}

func (f *Fold) add(o *object) {
	if f.Updates += o.updates; o.created {
		f.Created++
	}
	if o.deleted {
		f.Deleted++
	}
}

// transitions says in the columns of kubectl get how objects changed: "2 Running → CrashLoopBackOff".
func transitions(objects []*object) (all []string) {
	numbers := map[string]int{}
	for _, o := range objects {
		for _, text := range o.changed {
			if numbers[text]++; numbers[text] == 1 {
				all = append(all, text)
			}
		}
	}
	if len(objects) == 1 {
		return all
	}
	slices.SortStableFunc(all, func(x, y string) int { return numbers[y] - numbers[x] })
	for i, text := range all {
		all[i] = fmt.Sprintf("%d %s", numbers[text], text)
	}
	return all
}

// text returns the owner as commands take it: deploy/web.
func (o *owner) text() string {
	kind := strings.ToLower(o.Kind)
	if like := suggest.Like(kind, slices.Collect(maps.Keys(cells.BuiltIn()))); len(like) == 1 {
		kind = suggest.Short(like[0])
	}
	return kind + "/" + o.Name
}

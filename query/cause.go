package query

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/internal/suggest"
	"kubecdc/sinks"
)

// Deletion is that of an object. Nothing in the object tells by whom; but one that goes with its owner or with its namespace can be
// told from others, by what the log has of these.
type Deletion struct {
	Cause  string // empty: not known
	By     *Who   // nil: nobody is asked. Causes adds with what a cascade began
	seen   time.Time
	owners []owner
	after  *life
}

// owner is an object that takes another one with it.
type owner struct {
	APIVersion, Kind, Name string
	UID                    string // empty: it is the namespace
	key                    string // resource and name; empty: the log has no such resource
}

// DeletionOf is a deletion, of which Causes may know more.
func DeletionOf(l *sinks.Logged, by *Who) *Deletion {
	d, object := &Deletion{seen: l.Time, By: by}, l.Before
	if object == nil {
		object = l.After
	}
	_ = json.Unmarshal(rawjson.Member(rawjson.Member(object, "metadata"), "ownerReferences"), &d.owners) // it was checked before
	if l.Namespace != "" {
		d.owners = append(d.owners, owner{APIVersion: "v1", Kind: "Namespace", Name: strings.Clone(l.Namespace)})
	}
	return d
}

// deepest is how many owners of owners are looked for.
const deepest = 5

// Causes finds out which deletions followed that of an owner, or of the namespace; and if it is asked by whom, with which a cascade began.
func Causes(ctx context.Context, r sinks.Reader, deletions []*Deletion) error {
	known, err := r.Resources(ctx)
	if err != nil {
		return err
	}
	lives := map[string][]*life{}
	for level, now := 0, deletions; level < deepest && len(now) > 0; level++ {
		names := map[string]map[string]bool{} // by resource
		for _, d := range now {
			for i := range d.owners {
				d.owners[i].ask(known, names, lives)
			}
		}
		asked := now[0].By != nil
		for resource, names := range names {
			if err := readLives(ctx, r, resource, names, lives, asked); err != nil {
				return err
			}
		}
		var next []*Deletion
		for _, d := range now {
			if d.find(lives); d.after != nil && asked {
				next = append(next, d.after.deletion)
			}
		}
		now = next
	}
	for _, d := range deletions {
		d.tell()
	}
	return nil
}

// find finds the owner with which the object went.
func (d *Deletion) find(lives map[string][]*life) {
	for _, o := range d.owners {
		i := slices.IndexFunc(lives[o.key], func(l *life) bool { return l.took(&o, d) })
		if i < 0 || d.after != nil {
			continue
		}
		d.after, d.Cause = lives[o.key][i], "with its owner "+o.Kind+" "+o.Name
		if o.UID == "" {
			d.Cause = "with its namespace"
		}
	}
}

// tell adds with what the cascade began.
func (d *Deletion) tell() {
	root := d.after
	for range deepest {
		if root != nil && root.deletion.after != nil {
			root = root.deletion.after
		}
	}
	if root == nil || d.By == nil || root.deletion.By == nil || len(root.deletion.By.names) == 0 {
		return
	}
	by := root.deletion.By
	if len(d.By.names) == 0 {
		*d.By = Who{Grade: Probable, User: by.User, Impersonated: by.Impersonated, Users: by.Users, names: by.names}
		if by.User == "" {
			d.By.Grade = OneOf
		}
	}
	d.By.Because = &Because{root.resource, root.namespace, root.name, by}
	d.Cause += ", " + d.By.Because.String()
}

// ask adds the owner to the names that are read of its resource.
func (o *owner) ask(known []string, names map[string]map[string]bool, lives map[string][]*life) {
	kind := o.Kind
	if group, _, found := strings.Cut(o.APIVersion, "/"); found {
		kind += "." + group
	}
	like := suggest.Like(kind, known)
	if len(like) != 1 {
		return
	}
	if o.key = like[0] + "/" + o.Name; lives[o.key] != nil {
		return // it was read
	}
	if names[like[0]] == nil {
		names[like[0]] = map[string]bool{}
	}
	names[like[0]][o.Name] = true
}

// life is an object of an owner's name that was deleted: from when that was asked for until it was gone.
type life struct {
	identity
	uid      string
	from, to time.Time
	deletion *Deletion // nil: it was not deleted
}

// took reports whether the owner's deletion explains another one: that of a namespace only within it, since a namespace is known by its
// name alone.
func (l *life) took(o *owner, d *Deletion) bool {
	return !l.from.IsZero() && !l.from.After(d.seen.Add(time.Second)) &&
		(o.UID == l.uid || o.UID == "" && (l.to.IsZero() || !l.to.Before(d.seen)))
}

// readLives reads which objects of a resource had the names, and who deleted them if that is asked.
func readLives(
	ctx context.Context, r sinks.Reader, resource string, names map[string]bool, lives map[string][]*life, asked bool,
) (err error) {
	q := sinks.Query{Resources: []string{resource}, Wanted: func(l *sinks.Logged) bool { return names[l.Name] }}
	of := sinks.Objects{Resources: q.Resources}
	for name := range names {
		if len(names) == 1 {
			q.Name, of.Names = name, []string{resource + "/" + name}
		}
	}
	var requests *Requests
	if asked {
		if requests, err = ReadRequests(ctx, r, &of, time.Time{}); err != nil {
			return err
		}
	}
	return r.Changes(ctx, q, func(l *sinks.Logged) error {
		key, by := resource+"/"+l.Name, requests.Who(l)
		i := slices.IndexFunc(lives[key], func(known *life) bool { return known.uid == l.UID })
		if i < 0 {
			i, lives[key] = len(lives[key]), append(lives[key], &life{identity: identityOf(l), uid: strings.Clone(l.UID)})
		}
		at := lives[key][i]
		if l.Op == change.Delete {
			at.to = l.Time
		}
		if at.from.IsZero() && (l.Op == change.Delete || marksOf(l.After).deleting) {
			at.from, at.deletion = l.Time, DeletionOf(l, by)
		}
		return nil
	})
}

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

// Deletion is the deletion of one object. The object does not say who deleted it. But the log shows if the object was deleted
// because its owner or its namespace was.
type Deletion struct {
	Cause     string // what it followed, as text; empty: not known
	Requester *Who   // nil: the caller asks for no requesters. Causes adds where a cascade began
	seenAt    time.Time
	owners    []owner
	after     *life
}

// owner is an object whose deletion deletes another object.
type owner struct {
	APIVersion, Kind, Name string
	UID                    string // empty: the owner is the namespace
	key                    string // resource and name; empty: the log has no such resource
}

// DeletionOf returns the deletion in a change. Causes may add what caused it.
func DeletionOf(l *sinks.Logged, requester *Who) *Deletion {
	d, object := &Deletion{seenAt: l.Time, Requester: requester}, l.Before
	if object == nil {
		object = l.After
	}
	_ = json.Unmarshal(rawjson.Member(rawjson.Member(object, "metadata"), "ownerReferences"), &d.owners) // the change was decoded before, so this is valid JSON
	if l.Namespace != "" {
		d.owners = append(d.owners, owner{APIVersion: "v1", Kind: "Namespace", Name: strings.Clone(l.Namespace)})
	}
	return d
}

// deepest is how many levels of owners are read.
const deepest = 5

// Causes finds which deletions followed the deletion of an owner or of the namespace. If the deletions have requesters, it also
// adds who began each cascade.
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
				d.owners[i].addName(known, names, lives)
			}
		}
		wantsRequesters := now[0].Requester != nil
		for resource, names := range names {
			if err := readLives(ctx, r, resource, names, lives, wantsRequesters); err != nil {
				return err
			}
		}
		var next []*Deletion
		for _, d := range now {
			if d.findOwner(lives); d.after != nil && wantsRequesters {
				next = append(next, d.after.deletion)
			}
		}
		now = next
	}
	for _, d := range deletions {
		d.addRoot()
	}
	return nil
}

// findOwner finds the owner whose deletion explains this one.
func (d *Deletion) findOwner(lives map[string][]*life) {
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

// addRoot adds the deletion that began the cascade, and its requester.
func (d *Deletion) addRoot() {
	root := d.after
	for range deepest {
		if root != nil && root.deletion.after != nil {
			root = root.deletion.after
		}
	}
	if root == nil || d.Requester == nil || root.deletion.Requester == nil || len(root.deletion.Requester.names) == 0 {
		return
	}
	requester := root.deletion.Requester
	if len(d.Requester.names) == 0 {
		*d.Requester = Who{Grade: Probable, User: requester.User, Impersonated: requester.Impersonated, Users: requester.Users, names: requester.names}
		if requester.User == "" {
			d.Requester.Grade = OneOf
		}
	}
	d.Requester.Because = &Because{root.resource, root.namespace, root.name, requester}
	d.Cause += ", " + d.Requester.Because.String()
}

// addName adds the owner to the names to read, by resource.
func (o *owner) addName(known []string, names map[string]map[string]bool, lives map[string][]*life) {
	kind := o.Kind
	if group, _, found := strings.Cut(o.APIVersion, "/"); found {
		kind += "." + group
	}
	like := suggest.Like(kind, known)
	if len(like) != 1 {
		return
	}
	if o.key = like[0] + "/" + o.Name; lives[o.key] != nil {
		return // already read
	}
	if names[like[0]] == nil {
		names[like[0]] = map[string]bool{}
	}
	names[like[0]][o.Name] = true
}

// life is one object with an owner's name: from the request for its deletion until it was gone.
type life struct {
	identity
	uid      string
	from, to time.Time
	deletion *Deletion // nil: the object was not deleted
}

// took reports whether the owner's deletion explains another deletion. A namespace is known by its name alone, so it explains
// only deletions before its own end.
func (l *life) took(o *owner, d *Deletion) bool {
	return !l.from.IsZero() && !l.from.After(d.seenAt.Add(time.Second)) &&
		(o.UID == l.uid || o.UID == "" && (l.to.IsZero() || !l.to.Before(d.seenAt)))
}

// readLives reads the objects of a resource that had one of the names, and who deleted them if wantsRequesters.
func readLives(
	ctx context.Context, r sinks.Reader, resource string, names map[string]bool, lives map[string][]*life, wantsRequesters bool,
) (err error) {
	q := sinks.Query{Resources: []string{resource}, Wanted: func(l *sinks.Logged) bool { return names[l.Name] }}
	objects := sinks.Objects{Resources: q.Resources}
	for name := range names {
		if len(names) == 1 {
			q.Name, objects.Names = name, []string{resource + "/" + name}
		}
	}
	var requests *Requests
	if wantsRequesters {
		if requests, err = ReadRequests(ctx, r, &objects, time.Time{}); err != nil {
			return err
		}
		coverage, _, err := Covered(ctx, r, &objects, time.Time{})
		if err != nil {
			return err
		}
		requests.ReadLate = LateAmong(coverage).Has
	}
	return r.Changes(ctx, q, func(l *sinks.Logged) error {
		key, requester := resource+"/"+l.Name, requests.Who(l)
		i := slices.IndexFunc(lives[key], func(known *life) bool { return known.uid == l.UID })
		if i < 0 {
			i, lives[key] = len(lives[key]), append(lives[key], &life{identity: identityOf(l), uid: strings.Clone(l.UID)})
		}
		found := lives[key][i]
		if l.Op == change.Delete {
			found.to = l.Time
		}
		if found.from.IsZero() && (l.Op == change.Delete || marksOf(l.After).deleting) {
			found.from, found.deletion = l.Time, DeletionOf(l, requester)
		}
		return nil
	})
}

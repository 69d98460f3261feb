package who

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/internal/suggest"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
)

// Deletion is the deletion of one object. The object does not say who deleted it. But the log shows if the object was deleted
// because its owner or its namespace was.
type Deletion struct {
	Cause     string // what it followed, as text; empty: not known
	Requester *Who   // nil: the caller asks for no requesters. Causes adds where a cascade began
	seenAt    time.Time
	created   time.Time              // by the object, or seenAt
	version   change.ResourceVersion // the deletion's version; empty: not known
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
	d, object := &Deletion{seenAt: l.Time, version: versionOfDeletion(l), Requester: requester}, l.Before
	if object == nil {
		object = l.After
	}
	d.created = cmp.Or(createdAt(object), l.Time)
	// the change was decoded before, so this is valid JSON
	_ = json.Unmarshal(rawjson.Member(rawjson.Member(object, "metadata"), "ownerReferences"), &d.owners)
	if l.Namespace != "" {
		d.owners = append(d.owners, owner{APIVersion: "v1", Kind: "Namespace", Name: strings.Clone(l.Namespace)})
	}
	return d
}

// versionOfDeletion returns the version of a deletion, or of the update that began it. The version of an inferred deletion is not
// known.
func versionOfDeletion(l *sinks.Logged) change.ResourceVersion {
	if l.Inferred {
		return ""
	}
	return change.ResourceVersion(strings.Clone(string(l.ResourceVersion)))
}

func createdAt(object []byte) (created time.Time) {
	_ = json.Unmarshal(rawjson.Member(rawjson.Member(object, "metadata"), "creationTimestamp"), &created) // zero if there is none
	return created
}

// isPersons reports whether a person is known to have requested the deletion. Users of controllers begin with "system:".
func (d *Deletion) isPersons() bool {
	w := d.Requester
	return w != nil && (w.Grade == Exact && !strings.HasPrefix(w.User, "system:") ||
		(&Deletion{Requester: w.AskedBy}).isPersons())
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
		own := o.lifeOf(d, lives)
		if d.after != nil || own == nil || d.isPersons() || !own.took(d) {
			continue
		}
		d.after, d.Cause = own, "with its owner "+o.Kind+" "+o.Name
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
		*d.Requester = Who{AskedBy: d.Requester.AskedBy, Grade: Probable, User: requester.User,
			Impersonated: requester.Impersonated, Users: requester.Users, names: requester.names}
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

// life is one object with an owner's name.
type life struct {
	identity
	uid      string
	created  time.Time
	deletion *Deletion // from its beginning on. nil: the object was not deleted
}

// lifeOf returns the owner of a deleted object, or nil if the log does not have it. A namespace is known by its name alone: it is
// the last one that is not younger than the object.
func (o *owner) lifeOf(d *Deletion, lives map[string][]*life) (found *life) {
	for _, l := range lives[o.key] {
		if o.UID == l.uid || o.UID == "" && !l.created.After(d.created) {
			found = l
		}
	}
	return found
}

// reordered is by how much two streams may be read in another order than things happened.
const reordered = time.Second

// took reports whether the owner's deletion explains another deletion, which can't be older. Their times decide, or their
// versions if the times are too close.
func (l *life) took(d *Deletion) bool {
	switch began := l.deletion; {
	case began == nil:
		return false
	case d.seenAt.Sub(began.seenAt).Abs() <= reordered && d.version != "" && began.version != "":
		return began.version.Compare(d.version) < 0
	default:
		return !began.seenAt.After(d.seenAt)
	}
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
		coverage, _, err := timeline.Covered(ctx, r, &objects, time.Time{})
		if err != nil {
			return err
		}
		late := timeline.LateAmong(coverage)
		requests.ReadLate, requests.Skips, requests.Ignores = late.Has, late.Skips, late.Ignores
	}
	return r.Changes(ctx, q, func(l *sinks.Logged) error {
		key, requester := resource+"/"+l.Name, requests.Who(l)
		i := slices.IndexFunc(lives[key], func(known *life) bool { return known.uid == l.UID })
		if i < 0 {
			i, lives[key] = len(lives[key]), append(lives[key], &life{identity: identityOf(l), uid: strings.Clone(l.UID)})
		}
		found := lives[key][i]
		if found.created = cmp.Or(found.created, createdAt(l.After)); found.created.IsZero() && l.Op == change.Create {
			found.created = l.Time
		}
		if found.deletion == nil && (l.Op == change.Delete || marksOf(l.After).deleting) {
			found.deletion = DeletionOf(l, requester)
		}
		return nil
	})
}

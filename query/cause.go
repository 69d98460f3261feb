package query

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
	"kubecdc/sinks"
)

// Deletion is that of an object. Nothing in the object tells by whom; but one that goes with its owner or with its namespace can be
// told from others, by what the log has of these.
type Deletion struct {
	Cause  string // empty: not known
	seen   time.Time
	owners []owner
}

// owner is an object that takes another one with it.
type owner struct {
	APIVersion, Kind, Name string
	UID                    string // empty: it is the namespace
	key                    string // resource and name; empty: the log has no such resource
}

// DeletionOf is a deletion, of which Causes may know more.
func DeletionOf(l *sinks.Logged) *Deletion {
	d := &Deletion{seen: l.Time}
	_ = json.Unmarshal(rawjson.Member(rawjson.Member(l.Before, "metadata"), "ownerReferences"), &d.owners) // it was checked before
	if l.Namespace != "" {
		d.owners = append(d.owners, owner{APIVersion: "v1", Kind: "Namespace", Name: strings.Clone(l.Namespace)})
	}
	return d
}

// Causes finds out which deletions followed that of an owner, or of the namespace.
func Causes(ctx context.Context, r sinks.Reader, deletions []*Deletion) error {
	known, err := r.Resources(ctx)
	names, lives := map[string]map[string]bool{}, map[string][]life{} // by resource; by key
	for _, d := range deletions {
		for i := range d.owners {
			d.owners[i].ask(known, names)
		}
	}
	for resource, names := range names {
		err = cmp.Or(err, readLives(ctx, r, resource, names, lives))
	}
	for _, d := range deletions {
		for _, o := range d.owners {
			if d.Cause != "" || !slices.ContainsFunc(lives[o.key], func(l life) bool { return l.took(&o, d) }) {
				continue
			}
			if d.Cause = "with its owner " + o.Kind + " " + o.Name; o.UID == "" {
				d.Cause = "with its namespace"
			}
		}
	}
	return err
}

// ask adds the owner to the names that are read of its resource.
func (o *owner) ask(known []string, names map[string]map[string]bool) {
	kind := o.Kind
	if group, _, found := strings.Cut(o.APIVersion, "/"); found {
		kind += "." + group
	}
	if like := suggest.Like(kind, known); len(like) == 1 {
		if o.key = like[0] + "/" + o.Name; names[like[0]] == nil {
			names[like[0]] = map[string]bool{}
		}
		names[like[0]][o.Name] = true
	}
}

// life is an object of an owner's name that was deleted: from when that was asked for until it was gone.
type life struct {
	uid      string
	from, to time.Time
}

// took reports whether the owner's deletion explains another one: that of a namespace only within it, since a namespace is known by its
// name alone.
func (l *life) took(o *owner, d *Deletion) bool {
	return !l.from.IsZero() && !l.from.After(d.seen.Add(time.Second)) &&
		(o.UID == l.uid || o.UID == "" && (l.to.IsZero() || !l.to.Before(d.seen)))
}

// readLives reads which objects of a resource had the names.
func readLives(ctx context.Context, r sinks.Reader, resource string, names map[string]bool, lives map[string][]life) error {
	q := sinks.Query{Resources: []string{resource}, Wanted: func(l *sinks.Logged) bool { return names[l.Name] }}
	for name := range names {
		if len(names) == 1 {
			q.Name = name
		}
	}
	return r.Changes(ctx, q, func(l *sinks.Logged) error {
		key := resource + "/" + l.Name
		i := slices.IndexFunc(lives[key], func(known life) bool { return known.uid == l.UID })
		if i < 0 {
			i, lives[key] = len(lives[key]), append(lives[key], life{uid: strings.Clone(l.UID)})
		}
		at := &lives[key][i]
		if l.Op == change.Delete {
			at.to = l.Time
		}
		if at.from.IsZero() && (l.Op == change.Delete || rawjson.Member(rawjson.Member(l.After, "metadata"), "deletionTimestamp") != nil) {
			at.from = l.Time
		}
		return nil
	})
}

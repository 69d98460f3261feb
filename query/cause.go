package query

import (
	"context"
	"encoding/json"
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
type owner struct{ APIVersion, Kind, Name, UID string } // without UID it is the namespace

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
	lives := map[string][]life{} // of owners, by kind and name
	for _, d := range deletions {
		for _, o := range d.owners {
			if _, read := lives[o.APIVersion+o.Kind+o.Name]; err == nil && !read {
				lives[o.APIVersion+o.Kind+o.Name], err = o.lives(ctx, r, known)
			}
			for _, l := range lives[o.APIVersion+o.Kind+o.Name] {
				if d.Cause == "" && l.took(&o, d) {
					d.Cause = "with its owner " + o.Kind + " " + o.Name
					if o.UID == "" {
						d.Cause = "with its namespace"
					}
				}
			}
		}
	}
	return err
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

// lives reads which objects had the owner's name.
func (o *owner) lives(ctx context.Context, r sinks.Reader, known []string) (all []life, err error) {
	name := o.Kind
	if group, _, found := strings.Cut(o.APIVersion, "/"); found {
		name += "." + group
	}
	like := suggest.Like(name, known)
	if len(like) != 1 {
		return nil, nil
	}
	err = r.Changes(ctx, sinks.Query{Resources: like, Name: o.Name}, func(l *sinks.Logged) error {
		if len(all) == 0 || all[len(all)-1].uid != l.UID {
			all = append(all, life{uid: strings.Clone(l.UID)})
		}
		last := &all[len(all)-1]
		if l.Op == change.Delete {
			last.to = l.Time
		}
		if last.from.IsZero() && (l.Op == change.Delete || rawjson.Member(rawjson.Member(l.After, "metadata"), "deletionTimestamp") != nil) {
			last.from = l.Time
		}
		return nil
	})
	return all, err
}

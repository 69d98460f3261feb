package query

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/internal/suggest"
	"kubecdc/sinks"
)

// An object does not tell who deleted it. But one that goes since its owner or its namespace goes can be told from the others, by
// what the log has of these.

// owner is an object that took another one with it, if it was deleted.
type owner struct {
	APIVersion, Kind, Name, UID string
}

// ownersOf are the owners of an object, and its namespace.
func ownersOf(object []byte, namespace string) (all []owner) {
	_ = json.Unmarshal(rawjson.Member(rawjson.Member(object, "metadata"), "ownerReferences"), &all) // it was checked before
	if namespace != "" {
		all = append(all, owner{APIVersion: "v1", Kind: "Namespace", Name: namespace})
	}
	return all
}

// resource finds the resource of an owner among those of the log.
func (o *owner) resource(known []string) string {
	group, _, grouped := strings.Cut(o.APIVersion, "/")
	name := o.Kind
	if grouped {
		name += "." + group
	}
	if like := suggest.Like(name, known); len(like) == 1 {
		return like[0]
	}
	return ""
}

// ends are when an object was going, from when its deletion was asked for until it was gone.
type end struct {
	uid      string
	from, to time.Time
}

// Causes tells of each deletion which owner, or namespace, was deleted before or is being deleted.
func Causes(ctx context.Context, r sinks.Reader, deleted []*Event) error {
	known, err := r.Resources(ctx)
	if err != nil {
		return err
	}
	owners := map[string]*sinks.Objects{} // by resource
	for _, e := range deleted {
		for _, o := range e.owners {
			id := o.resource(known)
			if owners[id] == nil {
				owners[id] = &sinks.Objects{Resources: []string{id}}
			}
			if name := id + "/" + o.Name; !slices.Contains(owners[id].Names, name) {
				owners[id].Names = append(owners[id].Names, name)
			}
		}
	}
	delete(owners, "")
	for _, id := range slices.Sorted(maps.Keys(owners)) {
		ends, err := endsOf(ctx, r, owners[id])
		if err != nil {
			return err
		}
		for _, e := range deleted {
			for _, o := range e.owners {
				if e.Cause == "" && o.resource(known) == id && slices.ContainsFunc(ends[o.Name], func(n end) bool { return o.ended(n, e) }) {
					e.Cause = o.cause()
				}
			}
		}
	}
	return nil
}

// ended reports whether an end of the owner explains a deletion. Of a namespace the deletion must be within, since nothing else tells
// its lives apart.
func (o *owner) ended(n end, deleted *Event) bool {
	if o.UID != "" {
		return n.uid == o.UID && !n.from.After(deleted.Seen.Add(time.Second))
	}
	return !n.from.After(deleted.Seen) && (n.to.IsZero() || !n.to.Before(deleted.Seen))
}

func (o *owner) cause() string {
	if o.UID == "" {
		return "with its namespace"
	}
	return fmt.Sprintf("with its owner %s %s", o.Kind, o.Name)
}

// endsOf reads when objects were deleted, by their names.
func endsOf(ctx context.Context, r sinks.Reader, o *sinks.Objects) (map[string][]end, error) {
	ends, open := map[string][]end{}, map[string]int{} // open: the last end of an object, by key and uid
	err := r.Changes(ctx, o.Query(), func(l *sinks.Logged) error {
		key := l.Change.Key() + "\x00" + l.UID
		i, found := open[key]
		going := rawjson.Member(rawjson.Member(l.After, "metadata"), "deletionTimestamp") != nil
		if !found && (going || l.Op == change.Delete) {
			i = len(ends[l.Name])
			ends[l.Name] = append(ends[l.Name], end{uid: strings.Clone(l.UID), from: l.Time})
			open[key] = i
		}
		if l.Op == change.Delete {
			ends[l.Name][i].to = l.Time
		}
		return nil
	})
	return ends, err
}

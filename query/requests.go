package query

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/sinks"
)

// Requests joins changes to the requests that made them. It holds the audit records of the objects that are asked about, which are read
// once. Nothing waits for a record: what has not arrived is not known.
type Requests struct {
	Coverage audit.Coverage
	// Ignores reports whether updates of a resource may be left out of the log, by the settings: then a change may stand for several.
	Ignores func(resource string) bool

	reader  sinks.Reader
	query   audit.Query
	on      map[versioned][]*audit.Record // by the versions that they wrote on; a creation: by its uid
	to      map[versioned][]*audit.Record // by the version that they were answered
	of      map[identity][]*audit.Record  // by name, in the order of their times
	sorted  bool
	bulk    map[string][]*audit.Record // deletecollections, by resource
	used    map[*audit.Record]bool     // they are known to have made another change
	last    map[identity]last
	texts   map[string]string
	recent  map[string]time.Time // the ids of the records that the next reading finds again, and when they were received
	arrived time.Time            // when the last one was
}

// versioned is a version of an object.
type versioned struct {
	identity
	version change.ResourceVersion
}

// margin is how much earlier than the changes that are asked about the first records are read: clocks differ.
const margin = time.Hour

// overlap is how much longer a record may take into the log than another one: writers take turns.
const overlap = 5 * time.Second

// ReadRequests reads the records of objects that were received since a time, or a while before; zero: all.
func ReadRequests(ctx context.Context, r sinks.Reader, of *sinks.Objects, since time.Time) (*Requests, error) {
	q := &Requests{reader: r, on: map[versioned][]*audit.Record{}, to: map[versioned][]*audit.Record{}, of: map[identity][]*audit.Record{}, bulk: map[string][]*audit.Record{},
		used: map[*audit.Record]bool{}, last: map[identity]last{}, texts: map[string]string{}, recent: map[string]time.Time{}}
	asked := of.Query()
	q.query = audit.Query{Resources: asked.Resources, Namespace: asked.Namespace, Name: asked.Name}
	if !since.IsZero() && asked.Name == "" {
		q.query.Since = since.Add(-margin)
	}
	return q, q.Refresh(ctx)
}

// Refresh reads the records that were received since.
func (q *Requests) Refresh(ctx context.Context) (err error) {
	q.Coverage, err = q.reader.Audits(ctx, q.query, func(r *audit.Record) error {
		if _, known := q.recent[r.ID]; !known {
			q.add(r)
		}
		return nil
	})
	return err
}

// Known reports whether the log has audit records.
func (q *Requests) Known() bool { return q != nil && !q.Coverage.Since.IsZero() }

func (q *Requests) add(given *audit.Record) {
	q.remember(given)
	if code := given.Code; given.Effect == audit.Nothing || code != 0 && code < 500 && !given.Succeeded() {
		return
	}
	r := q.compact(given)
	o := identity{r.Resource, r.Namespace, r.Name}
	switch {
	case r.Verb == "deletecollection":
		q.bulk[r.Resource] = append(q.bulk[r.Resource], r)
		return
	case r.Created && r.UID != "":
		k := versioned{identity{resource: r.Resource}, change.ResourceVersion(r.UID)}
		q.on[k] = append(q.on[k], r)
	}
	index := func(by map[versioned][]*audit.Record, v change.ResourceVersion) {
		if v != "" {
			by[versioned{o, v}] = append(by[versioned{o, v}], r)
		}
	}
	index(q.on, r.VersionBefore)
	index(q.on, r.VersionBegan)
	index(q.to, r.VersionAfter)
	q.of[o], q.sorted = append(q.of[o], r), false
}

// remember moves on from where the next reading begins.
func (q *Requests) remember(r *audit.Record) {
	if r.Received.After(q.arrived) {
		q.arrived = r.Received
	}
	if from := q.arrived.Add(-overlap); from.Sub(q.query.Since) > overlap {
		q.query.Since = from
		maps.DeleteFunc(q.recent, func(_ string, at time.Time) bool { return at.Before(from) })
	}
	if !r.Received.Before(q.query.Since) {
		q.recent[strings.Clone(r.ID)] = r.Received
	}
}

// compact is a record of its own, without what no answer has.
func (q *Requests) compact(given *audit.Record) *audit.Record {
	r := *given
	r.ID, r.Groups, r.Extra, r.Addresses, r.AuditID = "", nil, nil, nil, strings.Clone(r.AuditID)
	for _, text := range []*string{&r.Resource, &r.Namespace, &r.Name, &r.UID, &r.Verb, &r.Subresource, &r.Manager, &r.User, &r.Impersonated,
		&r.UserAgent, (*string)(&r.VersionBefore), (*string)(&r.VersionBegan), (*string)(&r.VersionAfter)} {
		if known, ok := q.texts[*text]; ok {
			*text = known
			continue
		}
		*text = strings.Clone(*text)
		q.texts[*text] = *text
	}
	return &r
}

// Who is who made a change. Changes must come in the order of the log. nil: nobody is asked, since the log has no audit records, or
// since it is what a first list has read.
func (q *Requests) Who(l *sinks.Logged) *Who {
	if !q.Known() || l.Op == change.Read {
		return nil
	}
	return q.who(q.transition(l))
}

// transition is what tells who made a change. It remembers what is left of the object.
func (q *Requests) transition(l *sinks.Logged) *transition {
	o := identityOf(l)
	t := transitionOf(l, o, q.last[o])
	if q.Ignores != nil && q.Ignores(o.resource) && l.Op != change.Create {
		t.several = true
	}
	at, _ := l.Happened()
	q.last[o] = last{t.uid, t.version, at, t.is}
	return t
}

// who goes by uid and versions, whatever the object tells of times and managers: a client may choose these. They decide alone among requests
// that no event tells to have written.
func (q *Requests) who(t *transition) *Who {
	if t.op == change.Update && !t.several && t.before != "" && t.version.Compare(t.before) <= 0 {
		return t.byManagers() // a body that was corrected: nobody wrote it then
	}
	versioned, near := q.versioned(t), q.near(t)
	for _, requests := range [][]*audit.Record{versioned, near} {
		if found := among(requests, t.proves); len(found) > 0 {
			w := whoOf(found, Exact)
			q.used[found[0]] = len(found) == 1
			return w
		}
	}
	unused := func(r *audit.Record) bool { return !q.used[r] && t.fits(r) && t.allows(r) }
	made := func(r *audit.Record) bool {
		return unused(r) && (r.Effect == audit.Wrote || r.VersionAfter == t.version)
	}
	if found := among(versioned, made); len(found) > 0 {
		return whoOf(found, Probable)
	}
	if found := t.managed(append(among(near, unused), q.collections(t)...)); len(found) > 0 {
		return whoOf(found, Probable)
	}
	return t.byManagers()
}

// versioned are the requests that name a version of the change, whenever they were.
func (q *Requests) versioned(t *transition) []*audit.Record {
	on := versioned{t.identity, t.before}
	if t.op == change.Create {
		on = versioned{identity{resource: t.identity.resource}, change.ResourceVersion(t.uid)}
	}
	found := q.on[on]
	for _, r := range q.to[versioned{t.identity, t.version}] {
		if !slices.Contains(found, r) {
			found = append(found[:len(found):len(found)], r)
		}
	}
	return found
}

// longest is how long a request may take.
const longest = time.Minute

// near are the requests for an object of this name, or for one without a name, at the time of the change.
func (q *Requests) near(t *transition) (found []*audit.Record) {
	if !q.sorted {
		for _, requests := range q.of {
			slices.SortStableFunc(requests, func(a, b *audit.Record) int { return a.Time.Compare(b.Time) })
		}
		q.sorted = true
	}
	from, to := t.window()
	for _, o := range []identity{t.identity, {t.identity.resource, t.identity.namespace, ""}} {
		requests := q.of[o]
		first, _ := slices.BinarySearchFunc(requests, from.Add(-longest), func(r *audit.Record, at time.Time) int { return r.Time.Compare(at) })
		for _, r := range requests[first:] {
			if r.Time.After(to) {
				break
			}
			if !r.Answered.Before(from) {
				found = append(found, r)
			}
		}
	}
	return found
}

// collections are the deletecollections that can have deleted the object.
func (q *Requests) collections(t *transition) (found []*audit.Record) {
	if !t.deletes() {
		return nil
	}
	from, _ := t.window()
	to := t.seen.Add(time.Second) // what it selects is gone when it is answered, so the deletion is not older than the request
	return among(q.bulk[t.identity.resource], func(r *audit.Record) bool {
		return (r.Namespace == "" || r.Namespace == t.identity.namespace) && t.fits(r) && !r.Answered.Before(from) && !r.Time.After(to) && t.selectedBy(r)
	})
}

// Between are the users whose requests are known to have made a version of an object after one, up to another; empty: from its creation,
// or to its end.
func (q *Requests) Between(before, after *Object) (users []string) {
	if !q.Known() {
		return nil
	}
	var from, to change.ResourceVersion
	o := after
	if before != nil {
		o, from = before, before.ResourceVersion
	}
	if after != nil {
		to = after.ResourceVersion
	}
	uid, _ := rawjson.Text(rawjson.Member(rawjson.Member(o.Body, "metadata"), "uid"))
	for _, r := range q.of[identity{o.Resource, o.Namespace, o.Name}] {
		first := r.Created && from == ""
		if r.UID != uid || !first && (r.Effect != audit.Wrote || r.VersionBefore.Compare(from) < 0) || to != "" && r.VersionBefore.Compare(to) >= 0 {
			continue
		}
		if name := nameOf(r.User, r.Impersonated); !slices.Contains(users, name) {
			users = append(users, name)
		}
	}
	slices.Sort(users)
	return users
}

// Touches is a function that reports whether a user may have made a change: it did something to an object of that name, or the change is
// a deletion, which may follow another one.
func (q *Requests) Touches(user string) func(l *sinks.Logged) bool {
	touched, bulk := map[identity]bool{}, map[string]bool{}
	by := func(r *audit.Record) bool { return r.User == user || r.Impersonated == user }
	for o, requests := range q.of {
		touched[o] = slices.ContainsFunc(requests, by)
	}
	for resource, requests := range q.bulk {
		bulk[resource] = slices.ContainsFunc(requests, by)
	}
	return func(l *sinks.Logged) bool {
		o := identityOf(l)
		return l.Op == change.Delete || bulk[o.resource] || touched[o] || touched[identity{o.resource, o.namespace, ""}]
	}
}

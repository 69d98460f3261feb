package who

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/internal/suggest"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
)

// Requests joins changes to the requests that made them. It holds the audit records of the objects in a question, which are read
// once. It waits for no record: the requester of a change whose record has not arrived is unknown.
type Requests struct {
	Coverage audit.Coverage
	// Ignores reports whether a change may stand for several, since the settings left out updates of the resource after a time
	// (timeline.Late). nil: they left none out.
	Ignores func(resource string, since time.Time, l *sinks.Logged) (may, known bool)
	// ReadLate reports whether a change may have happened long before it was seen (timeline.Late).
	ReadLate func(*sinks.Logged) bool
	// Skips reports whether the log may lack changes right before one that was recovered (timeline.Late). nil: it may.
	Skips func(*sinks.Logged) bool

	reader          sinks.Reader
	query           audit.Query
	byVersionBefore map[versioned][]*audit.Record // by the version that the request changed, or the uid that it created
	byVersionAfter  map[versioned][]*audit.Record // by the version in the response
	byName          map[identity][]*audit.Record  // by name, in order of time
	bulk            map[string][]*audit.Record    // deletecollection requests, by resource
	used            map[*audit.Record]bool        // requests that are known to have made another change
	last            map[identity]last
	texts           map[string]string
	recent          map[string]time.Time // ids of the records that the next read finds again, and when they were received
	arrived         time.Time            // when the last record was received
	forgotten       time.Time            // before this all records were dropped
}

// versioned is a version of an object.
type versioned struct {
	identity
	version change.ResourceVersion
}

// overlap is how much longer one record than another may take to reach the log, since writers take turns.
const overlap = 5 * time.Second

// ReadRequests reads the audit records of objects that were received since a time, and for an hour before. A zero time reads all.
func ReadRequests(ctx context.Context, r sinks.Reader, objects *sinks.Objects, since time.Time) (*Requests, error) {
	q := &Requests{reader: r, byVersionBefore: map[versioned][]*audit.Record{}, byVersionAfter: map[versioned][]*audit.Record{},
		byName: map[identity][]*audit.Record{}, bulk: map[string][]*audit.Record{},
		used: map[*audit.Record]bool{}, last: map[identity]last{}, texts: map[string]string{}, recent: map[string]time.Time{}}
	asked := objects.Query()
	q.query = audit.Query{Resources: asked.Resources, Namespace: asked.Namespace, Name: asked.Name}
	if !since.IsZero() && asked.Name == "" {
		q.query.Since = since.Add(-timeline.ClockMargin)
	}
	return q, q.Refresh(ctx)
}

// Refresh reads the records that were received since the last read.
func (q *Requests) Refresh(ctx context.Context) (err error) {
	q.Coverage, err = q.reader.Audits(ctx, q.query, func(r *audit.Record) error {
		if _, known := q.recent[r.ID]; !known {
			q.add(r)
		}
		return nil
	})
	return err
}

// Restart forgets the changes that were asked about, so that they may be asked about again.
func (q *Requests) Restart() {
	if q != nil {
		clear(q.used)
		clear(q.last)
	}
}

// Known reports whether the log has audit records.
func (q *Requests) Known() bool { return q != nil && !q.Coverage.Since.IsZero() }

// Users returns the users that audit records name.
func (q *Requests) Users() (known []string) {
	for _, records := range []iter.Seq[[]*audit.Record]{maps.Values(q.byName), maps.Values(q.bulk)} {
		for all := range records {
			for _, r := range all {
				known = append(known, r.User, r.Impersonated)
			}
		}
	}
	slices.Sort(known)
	return slices.DeleteFunc(slices.Compact(known), func(user string) bool { return user == "" })
}

// CheckUser returns an error that names similar users, if no audit record names a user. An empty user is known.
func (q *Requests) CheckUser(user string) error {
	if user == "" {
		return nil
	}
	known := q.Users()
	if slices.Contains(known, user) {
		return nil
	}
	return fmt.Errorf("no audit event of that time names the user %q%s", user,
		strings.TrimRight(": "+suggest.DidYouMean(user, known), ": "))
}

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
		q.byVersionBefore[k] = append(q.byVersionBefore[k], r)
	}
	index := func(records map[versioned][]*audit.Record, v change.ResourceVersion) {
		if v != "" {
			records[versioned{o, v}] = append(records[versioned{o, v}], r)
		}
	}
	index(q.byVersionBefore, r.VersionBefore)
	index(q.byVersionBefore, r.VersionBegan)
	index(q.byVersionAfter, r.VersionAfter)
	named := q.byName[o]
	// after all of its time
	i, _ := slices.BinarySearchFunc(named, r, func(known, r *audit.Record) int { return cmp.Or(known.Time.Compare(r.Time), -1) })
	q.byName[o] = slices.Insert(named, i, r)
}

// Forget drops the records that were read before a time. Otherwise their number would grow while a log is followed.
func (q *Requests) Forget(before time.Time) {
	if q == nil || before.Sub(q.forgotten) < time.Minute {
		return
	}
	q.forgotten = before
	isOld := func(r *audit.Record) bool { return r.Received.Before(before) }
	forget(q.byVersionBefore, isOld)
	forget(q.byVersionAfter, isOld)
	forget(q.byName, isOld)
	forget(q.bulk, isOld)
	maps.DeleteFunc(q.used, func(r *audit.Record, _ bool) bool { return isOld(r) })
	clear(q.texts)
}

func forget[K comparable](all map[K][]*audit.Record, isOld func(*audit.Record) bool) {
	for k, records := range all {
		if left := slices.DeleteFunc(records, isOld); len(left) > 0 {
			all[k] = left
		} else {
			delete(all, k)
		}
	}
}

// remember moves the start of the next read forward.
func (q *Requests) remember(r *audit.Record) {
	if r.Received.After(q.arrived) {
		q.arrived = r.Received
	}
	if from := q.arrived.Add(-overlap); from.Sub(q.query.Since) > overlap {
		q.query.Since = from
		maps.DeleteFunc(q.recent, func(_ string, received time.Time) bool { return received.Before(from) })
	}
	if !r.Received.Before(q.query.Since) {
		q.recent[strings.Clone(r.ID)] = r.Received
	}
}

// compact returns a copy of a record without the fields that no answer shows. Received is when it was read, for Forget.
func (q *Requests) compact(given *audit.Record) *audit.Record {
	r := *given
	r.Received = time.Now()
	r.ID, r.Groups, r.Extra, r.Addresses, r.AuditID = "", nil, nil, nil, strings.Clone(r.AuditID)
	for _, text := range []*string{&r.Resource, &r.Namespace, &r.Name, &r.UID, &r.Verb, &r.Subresource, &r.Manager, &r.User,
		&r.Impersonated,
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

// Who returns who made a change. Changes must come in the order of the log. It returns nil if the log has no audit records, or if
// a first list has read the object.
func (q *Requests) Who(l *sinks.Logged) *Who {
	if !q.Known() {
		return nil
	}
	if l.Op == change.Read {
		q.transition(l)
		return nil
	}
	o := identityOf(l)
	asked := q.last[o].asked
	w := q.who(q.transition(l))
	if known, alive := q.last[o]; alive && known.deleting {
		if known.asked = asked; asked == nil {
			known.asked = w
		}
		q.last[o] = known
	} else if asked != nil && len(asked.names) > 0 && asked.name() != w.name() {
		w.AskedBy = asked
	}
	return w
}

// transition returns what identifies the request behind a change. It remembers what the next change of the object needs.
func (q *Requests) transition(l *sinks.Logged) *transition {
	o := identityOf(l)
	earlier := q.last[o]
	t := transitionOf(l, o, earlier)
	if l.Gap != "" && l.Gap != earlier.gap && l.Op != change.Create && (q.Skips == nil || q.Skips(l)) {
		t.several = true // the first revisions of the gap may be compacted
	}
	t.unproven = t.several
	if q.Ignores != nil && l.Op != change.Create {
		may, known := q.Ignores(o.resource, q.sinceWritten(t, l), l)
		since, sure := q.Ignores(o.resource, earlier.seen, l) // zero: the change before is not known
		t.several, t.unproven, t.stale = t.several || may || since, t.several || may || !known, since || !sure
	}
	t.late = t.late || q.ReadLate != nil && q.ReadLate(l)
	happened := l.Provenance.Time
	if happened.IsZero() {
		if happened = l.Time; t.late || t.several { // it may have happened at any time since the previous change
			happened = t.since
		}
	}
	if q.last[o] = (last{t.uid, t.version, happened, l.Time, strings.Clone(l.Gap), nil, t.now}); l.Op == change.Delete {
		delete(q.last, o)
	}
	return t
}

// who decides by uid and versions before times and managers, since a client can choose the latter. Uid and versions also decide
// alone among requests for which no event says that they wrote.
func (q *Requests) who(t *transition) *Who {
	if t.op == change.Update && !t.several && t.before != "" && t.version.Compare(t.before) <= 0 {
		return t.byManagers() // a proof corrected the body: nobody wrote it at that time
	}
	versioned, near := q.versioned(t), q.near(t)
	for _, requests := range [][]*audit.Record{versioned, near} {
		if found := filter(requests, t.proves); len(found) > 0 {
			w := whoOf(found, Exact)
			q.used[found[0]] = len(found) == 1
			return w
		}
	}
	unused := func(r *audit.Record) bool { return !q.used[r] && t.fits(r) && t.allows(r) }
	made := func(r *audit.Record) bool {
		return unused(r) && (r.Effect == audit.Wrote || r.VersionAfter == t.version)
	}
	if found := filter(versioned, made); len(found) > 0 && !t.several { // else the first of several writers
		return whoOf(found, Probable)
	}
	if found := t.managed(append(filter(near, unused), q.collections(t)...)); len(found) > 0 {
		return whoOf(found, Probable)
	}
	return t.byManagers()
}

// versioned returns the requests that name a version of the change, at any time.
func (q *Requests) versioned(t *transition) []*audit.Record {
	key := versioned{t.identity, t.before}
	if t.op == change.Create {
		key = versioned{identity{resource: t.identity.resource}, change.ResourceVersion(t.uid)}
	}
	found := q.byVersionBefore[key]
	for _, r := range q.byVersionAfter[versioned{t.identity, t.version}] {
		if !slices.Contains(found, r) {
			found = append(found[:len(found):len(found)], r)
		}
	}
	return found
}

// sinceWritten returns the time of the earliest request that wrote from the version before a change, or the change's. If no
// update was left out since, the request made the change.
func (q *Requests) sinceWritten(t *transition, l *sinks.Logged) time.Time {
	since := l.Time
	for _, r := range q.versioned(t) {
		if r.Time.Before(since) && t.before != "" && r.VersionBefore == t.before && r.Effect != audit.Idle {
			since = r.Time
		}
	}
	return since
}

// longest is how long a request may take.
const longest = time.Minute

// near returns the requests for an object of this name, or without a name, around the time of the change.
func (q *Requests) near(t *transition) (found []*audit.Record) {
	from, to := t.window()
	for _, o := range []identity{t.identity, {t.identity.resource, t.identity.namespace, ""}} {
		requests := q.byName[o]
		first, _ := slices.BinarySearchFunc(requests, from.Add(-longest),
			func(r *audit.Record, start time.Time) int { return r.Time.Compare(start) })
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

// collections returns the deletecollection requests that can have deleted the object.
func (q *Requests) collections(t *transition) (found []*audit.Record) {
	if !t.deletes() {
		return nil
	}
	from, _ := t.window()
	// the selected objects are gone when the request is answered, so the deletion is not older than the request
	to := t.seen.Add(time.Second)
	return filter(q.bulk[t.identity.resource], func(r *audit.Record) bool {
		return (r.Namespace == "" || r.Namespace == t.identity.namespace) && t.fits(r) && !r.Answered.Before(from) &&
			!r.Time.After(to) && t.selectedBy(r)
	})
}

// UsersBetween returns the users whose requests are known to have made a version of an object after one version, up to another.
// If from is empty, it begins at the creation. If to is empty, it ends with the object.
func (q *Requests) UsersBetween(resource, namespace, name, uid string, from, to change.ResourceVersion) (users []string) {
	if !q.Known() {
		return nil
	}
	for _, r := range q.byName[identity{resource, namespace, name}] {
		first := r.Created && from == ""
		if r.UID != uid || !r.Succeeded() || !first && (r.Effect != audit.Wrote || r.VersionBefore.Compare(from) < 0) ||
			to != "" && r.VersionBefore.Compare(to) >= 0 {
			continue
		}
		if name := nameOf(r.User, r.Impersonated); !slices.Contains(users, name) {
			users = append(users, name)
		}
	}
	slices.Sort(users)
	return users
}

// MayHaveChanged returns a function that reports whether a user may have made a change. That is so if a request of the user
// named the object, named no object in its namespace, or deleted a collection of its resource. It returns true for every
// deletion, since the garbage collector may have made it after another deletion.
func (q *Requests) MayHaveChanged(user string) func(l *sinks.Logged) bool {
	named, bulk := map[identity]bool{}, map[string]bool{}
	isUsers := func(r *audit.Record) bool { return r.User == user || r.Impersonated == user }
	for o, requests := range q.byName {
		named[o] = slices.ContainsFunc(requests, isUsers)
	}
	for resource, requests := range q.bulk {
		bulk[resource] = slices.ContainsFunc(requests, isUsers)
	}
	return func(l *sinks.Logged) bool {
		o := identityOf(l)
		return l.Op == change.Delete || bulk[o.resource] || named[o] || named[identity{o.resource, o.namespace, ""}]
	}
}

package whoview

import (
	"fmt"
	"math/rand/v2"
	"time"

	"kubecdc/audit"
	"kubecdc/change"
)

// hostileObjects is how many objects have a random life.
const hostileObjects = 400

var selected = change.NewStream(deployments.Resource, "", "a=b", "")

// hostile is the life of an object, and records of requests. Some made its changes, and some claim so, by versions, uids, times and
// effects that are wrong. It has no deletion whose event has no version, since the view knows no states.
func hostile(r *rand.Rand, name string) (changes []change.Change, records []audit.Record) {
	one := func(n int) bool { return r.IntN(n) == 0 }
	moment, uid, version := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC), "uid of "+name, 10+r.IntN(1000)
	stream := deployments
	if one(10) {
		stream = selected
	}
	var before []byte
	gap := r.IntN(12) // changes in a row have the same
	for n := range 2 + r.IntN(8) {
		was := version
		version += []int{1, 2, 3, 420, 7 + r.IntN(500)}[r.IntN(5)]
		happened := moment.Add(time.Duration(n) * time.Second)
		body := fmt.Appendf(nil, `{"metadata":{"name":%q,"namespace":"shop","uid":%q,"resourceVersion":"%d","creationTimestamp":%q,"managedFields":`+
			`[{"manager":"m%d","operation":"Update","time":%q,"fieldsV1":{}}]}}`, name, uid, version, moment.Format(time.RFC3339), r.IntN(3),
			happened.Add(time.Duration(r.IntN(7)-5)*time.Second).Format(time.RFC3339))
		c := change.Change{Stream: stream, Op: change.Update, Namespace: "shop", Name: name, UID: uid, ResourceVersion: change.VersionOf(uint64(version)),
			Before: before, After: body, Time: happened, Inferred: one(15),
			Gap: []string{"", "", "", "", "a", "b"}[gap/2%6]}
		gap += r.IntN(3)
		switch {
		case n == 0:
			c.Op, c.Inferred = []change.Op{change.Create, change.Create, change.Read}[r.IntN(3)], false
		case one(8):
			c.Op, c.After = change.Delete, nil
		}
		changes = append(changes, c)
		for range r.IntN(3) {
			records = append(records, claim(r, &c, was, version))
		}
		if before = body; c.Op == change.Delete {
			break
		}
	}
	return changes, records
}

// claim is a record that may be of the change from one version to another.
func claim(r *rand.Rand, c *change.Change, was, now int) audit.Record {
	one := func(n int) bool { return r.IntN(n) == 0 }
	near := func(version int) change.ResourceVersion {
		return change.VersionOf(uint64(version + []int{0, 0, 0, 0, 0, 1, -1, 420}[r.IntN(8)]))
	}
	moment := c.Time
	if one(2) { // a clock that is an hour off
		moment = moment.Add(-time.Hour)
	}
	a := audit.Record{Resource: "deployments.apps", Namespace: "shop", Name: c.Name, UID: c.UID, Time: moment, Answered: moment.Add(time.Millisecond), Received: moment,
		Code: []int{200, 200, 200, 200, 201, 409, 500, 0}[r.IntN(8)], User: []string{"alice", "bob", "carol"}[r.IntN(3)], Verb: []string{"patch", "update"}[r.IntN(2)],
		Effect: []audit.Effect{audit.Wrote, audit.Wrote, audit.Wrote, audit.Idle, audit.Nothing, ""}[r.IntN(6)], VersionBefore: near(was), Retried: one(8)}
	switch {
	case c.Op == change.Create && !one(5), one(20):
		a.Verb, a.Created, a.VersionBefore, a.Effect = "create", true, "", ""
	case one(6): // a deletion in two steps
		a.Verb, a.VersionBegan, a.VersionBefore = "delete", near(was), near(now)
	case c.Op == change.Delete && !one(5):
		a.Verb = "delete"
	}
	if one(4) {
		a.VersionAfter = near(now)
	}
	if one(12) {
		a.UID = "uid of another"
	}
	if one(12) {
		a.Impersonated = "root"
	}
	return a
}

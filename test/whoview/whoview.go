// Package whoview compares the view changes_by, which two sinks have, with what `exporter history` says of the same changes.
package whoview

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/query/who"
	"kubecdc/sinks"
)

var deployments = change.NewStream(change.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true}, "", "", "")

// trial is what happens to an object. alice creates it in version 10, and then there is another change, with the records of what bob has
// asked for.
type trial struct {
	change func(*change.Change)
	bob    func(*audit.Record)
	carol  bool   // the same is told of her
	want   string // the user who is known to have made the second change
}

var trials = map[string]trial{
	"written":                 {want: "bob"},
	"written as another":      {bob: func(r *audit.Record) { r.Impersonated = "root" }, want: "bob as root"},
	"written by a NUL":        {bob: func(r *audit.Record) { r.User = "b\x00b" }, want: "b?b"},
	"tried several times":     {bob: func(r *audit.Record) { r.Retried = true }},
	"perhaps tried again":     {change: func(c *change.Change) { c.ResourceVersion = "430" }}, // the same remainder by 420
	"perhaps nothing written": {bob: func(r *audit.Record) { r.Effect = "" }},
	"a dry run":               {bob: func(r *audit.Record) { r.Effect = audit.Nothing }},
	"refused":                 {bob: func(r *audit.Record) { r.Code = 409 }},
	"failed in the server":    {bob: func(r *audit.Record) { r.Code = 500 }},
	"an older version":        {bob: func(r *audit.Record) { r.VersionBefore = "9" }},
	"another object":          {bob: func(r *audit.Record) { r.UID = "other" }},
	"another resource":        {bob: func(r *audit.Record) { r.Resource = "deployments.other" }},
	"of two":                  {carol: true},
	"first in a gap":          {change: func(c *change.Change) { c.Gap = "pods:9" }},
	"inferred":                {change: func(c *change.Change) { c.Inferred = true }},
	"corrected":               {change: func(c *change.Change) { c.ResourceVersion = "10" }},
	"read":                    {change: func(c *change.Change) { c.Op, c.Before = change.Read, nil }},
	"deleted":                 {change: func(c *change.Change) { c.Op, c.After = change.Delete, nil }, bob: func(r *audit.Record) { r.Verb = "delete" }, want: "bob"},
	"replaced by another of its name": {change: func(c *change.Change) { c.Op, c.Before, c.UID = change.Create, nil, "new" },
		bob: func(r *audit.Record) {
			r.Verb, r.Created, r.VersionBefore, r.Effect, r.UID = "create", true, "", "", "new"
		}, want: "bob"},
}

// Run writes to an empty log of one slot, and reads its view with a query of one column. The view's name may have a schema.
func Run(t *testing.T, sink sinks.Sink, reader sinks.Reader, view string, ask func(query string) ([]string, error)) {
	opened, err := sink.Open(t.Context(), 0, 1, sinks.Durable{New: true})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Log.Close()
	b, records, want := change.Batch{Epoch: 1, Seq: 1}, []audit.Record(nil), map[string]string{}
	for name, trial := range trials {
		first, second, asked := trial.make(name)
		b.Changes, records = append(b.Changes, first, second), append(records, asked...)
		want[key(&first)], want[key(&second)] = "alice", cmp.Or(trial.want, nobody)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for n := range hostileObjects {
		changes, asked := hostile(rand.New(rand.NewPCG(seed, uint64(n))), fmt.Sprint("hostile-", n))
		b.Changes, records = append(b.Changes, changes...), append(records, asked...)
	}
	for i := range records {
		records[i].ID = fmt.Sprintf("%032x", i+1)
	}
	if _, err = opened.Log.Write(t.Context(), &b); err == nil {
		err = sink.(sinks.AuditLog).WriteAudit(t.Context(), records)
	}
	if err != nil {
		t.Fatal(err)
	}
	names, seen := history(t, reader), viewed(t, view, ask)
	for what, got := range map[string]map[string]string{"history": names, "the view": seen} {
		for key, user := range want {
			if got[key] != user {
				t.Errorf("%s has %q for %s, want %q", what, got[key], key, user)
			}
		}
	}
	exact, differ := 0, 0
	for key, user := range names {
		if user != nobody {
			exact++
		}
		if seen[key] != user {
			if differ++; differ < 10 {
				t.Errorf("of %s history says %q, and the view %q", key, user, seen[key])
			}
		}
	}
	if len(seen) != len(names) || differ > 0 || exact < hostileObjects/2 {
		t.Errorf("the view has %d changes, history %d, of which %d are exact and %d differ", len(seen), len(names), exact, differ)
	}
	t.Logf("%d changes, %d of them exact", len(names), exact)
}

// viewed is who made each change, as the view tells: nobody where it tells of several.
func viewed(t *testing.T, view string, ask func(query string) ([]string, error)) map[string]string {
	t.Helper()
	rows, err := ask(`select name || '|' || op || '|' || version || '|' || uid || '|' || coalesce(username, '` + nobody + `') ||
		coalesce(' as ' || impersonated, '') from ` + view)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, row := range rows {
		i := strings.LastIndexByte(row, '|')
		key, user := row[:i], strings.NewReplacer("\x00", "?", "\uFFFD", "?").Replace(row[i+1:])
		if seen[key] != "" && seen[key] != user {
			user = nobody // several are not certain
		}
		seen[key] = user
	}
	return seen
}

const nobody = "nobody"

// make returns the object's two changes, and the records.
func (x *trial) make(name string) (first, second change.Change, asked []audit.Record) {
	moment, uid := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC), "uid of "+name
	body := func(version string) []byte {
		return fmt.Appendf(nil, `{"metadata":{"name":%q,"namespace":"shop","uid":%q,"resourceVersion":%q},"data":"\u0000"}`, name, uid, version)
	}
	first = change.Change{Stream: deployments, Op: change.Create, Namespace: "shop", Name: name, UID: uid, ResourceVersion: "10", After: body("10"), Time: moment}
	second = first
	second.Op, second.ResourceVersion, second.Before, second.After = change.Update, "11", body("10"), body("11")
	if x.change != nil {
		x.change(&second)
	}
	alice := audit.Record{Resource: "deployments.apps", Namespace: "shop", Name: name, UID: uid, Time: moment, Answered: moment, Received: moment, Code: 201,
		User: "alice", Verb: "create", Created: true}
	bob := alice
	bob.User, bob.Verb, bob.Created, bob.Effect, bob.VersionBefore, bob.Code = "bob", "patch", false, audit.Wrote, "10", 200
	if x.bob != nil {
		x.bob(&bob)
	}
	if asked = []audit.Record{alice, bob}; x.carol {
		bob.User = "carol"
		asked = append(asked, bob)
	}
	return first, second, asked
}

func key(c *change.Change) string {
	return fmt.Sprintf("%s|%s|%s|%s", c.Name, c.Op, c.ResourceVersion, c.UID)
}

// history is who is known to have made each change.
func history(t *testing.T, r sinks.Reader) map[string]string {
	t.Helper()
	seen := map[string]string{}
	q, err := who.ReadRequests(t.Context(), r, &sinks.Objects{}, time.Time{})
	if err == nil {
		err = r.Changes(t.Context(), sinks.Query{}, func(l *sinks.Logged) error {
			seen[key(&l.Change)] = nobody
			if w := q.Who(l); w != nil && w.Grade == who.Exact {
				seen[key(&l.Change)] = strings.ReplaceAll(w.Text(nil), "\x00", "?")
			}
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

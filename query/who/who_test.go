package who_test

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/query"
	"kubecdc/query/who"
	"kubecdc/sinks"
	"kubecdc/test/require"
)

type auditedLog struct {
	log
	records []audit.Record
}

func (l *auditedLog) Audits(_ context.Context, q audit.Query, visit func(*audit.Record) error) (audit.Coverage, error) {
	for i := range l.records {
		if r := l.records[i]; !r.Received.Before(q.Since) {
			if err := visit(&r); err != nil {
				return audit.Coverage{}, err
			}
		}
	}
	return audit.Coverage{Since: began}, nil
}

// request is a request for the pod shop/a of uid u at minute 0, as the audit policy records it.
func request(user, verb string, more func(*audit.Record)) audit.Record {
	r := audit.Record{ID: user + verb, AuditID: user, Time: began, Answered: began.Add(time.Millisecond), Received: began, Resource: "pods",
		Namespace: "shop", Name: "a", UID: "u", Verb: verb, Code: 200, User: user, UserAgent: "kubectl/1", Effect: audit.Wrote, VersionBefore: "5"}
	if more != nil {
		more(&r)
	}
	return r
}

const ending, finalizing = `"deletionTimestamp":"2026-06-01T12:00:00Z",`, `"finalizers":["x/y"],`

// podBody is the pod at a version.
func podBody(version int, more string) []byte {
	return fmt.Appendf(nil, `{"metadata":{%s"labels":{"app":"web"},"resourceVersion":"%d"}}`, more, version)
}

// whoCase is a change of the pod, by default from version 5 to 6, and the requests that are known.
type whoCase struct {
	change   change.Change
	requests []audit.Record
	ignores  bool
	want     string
}

func (c *whoCase) ask(t *testing.T) string {
	t.Helper()
	l := &auditedLog{records: c.requests}
	q, err := who.ReadRequests(t.Context(), l, &sinks.Objects{}, time.Time{})
	must(t, err)
	q.Ignores = func(string, time.Time, *sinks.Logged) (bool, bool) { return c.ignores, true }
	c.change.Stream, c.change.Namespace, c.change.Name, c.change.UID = change.ParseStream("pods"), "shop", "a", "u"
	c.change.Time = began.Add(time.Second)
	if c.change.ResourceVersion == "" {
		c.change.ResourceVersion = "6"
	}
	answer := func() string {
		w := q.Who(&sinks.Logged{Change: c.change})
		return string(w.Grade) + " " + w.Text(nil)
	}
	first := answer()
	q.Restart()
	if again := answer(); again != first {
		t.Errorf("asked again about %s: %s, want %s", c.change.Op, again, first)
	}
	return first
}

const nobody = "unknown somebody unknown"

func wantWho(t *testing.T, cases map[string]whoCase) {
	t.Helper()
	for name, c := range cases {
		if got := c.ask(t); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// alice is her request for the pod alone.
func alice(verb string, more func(*audit.Record)) []audit.Record {
	return []audit.Record{request("alice", verb, more)}
}

func updated(before, after string) change.Change {
	return change.Change{Op: change.Update, Before: podBody(5, before), After: podBody(6, after)}
}

func gone(before string) change.Change {
	return change.Change{Op: change.Delete, Before: podBody(5, before)}
}

// The grade exact is certain, whatever else happened without an event. Each doubt leads to another grade.
func TestWhoMadeAnUpdate(t *testing.T) {
	wrote, maybe := request("alice", "patch", nil), request("bob", "patch", func(r *audit.Record) { r.Effect = "" })
	inferred, corrected := updated("", ""), updated("", "")
	inferred.Inferred, corrected.ResourceVersion = true, "5"
	late := updated("", "")
	late.Provenance.Time, late.Provenance.Managers = began.Add(5*time.Second), []byte("kubectl")
	unimaged := updated("", "")
	unimaged.Before = nil
	alike := updated("", "") // versions 5 and 425 have the same remainder
	alike.ResourceVersion, alike.After = "425", podBody(425, "")
	binding := request("scheduler", "create", func(r *audit.Record) { r.Subresource, r.VersionBefore, r.Effect = "binding", "", "" })
	bound := updated("", "")
	bound.After = []byte(`{"metadata":{"resourceVersion":"6"},"spec":{"nodeName":"n"}}`)
	wantWho(t, map[string]whoCase{
		"the writer":                          {updated("", ""), alice("patch", nil), false, "exact alice"},
		"beside one that changed nothing":     {updated("", ""), []audit.Record{maybe, wrote}, false, "exact alice"},
		"one that may have changed nothing":   {updated("", ""), []audit.Record{maybe}, false, "probable probably bob"},
		"two claim it":                        {updated("", ""), []audit.Record{wrote, request("carol", "patch", nil)}, false, "one of alice or carol"},
		"one user, twice":                     {updated("", ""), []audit.Record{wrote, request("alice", "update", nil)}, false, "exact alice"},
		"as another":                          {updated("", ""), alice("patch", func(r *audit.Record) { r.Impersonated = "root" }), false, "exact alice as root"},
		"refused":                             {updated("", ""), alice("patch", func(r *audit.Record) { r.Code = 409 }), false, nobody},
		"failed in the server":                {updated("", ""), alice("patch", func(r *audit.Record) { r.Code = 504 }), false, "probable probably alice"},
		"a dry run":                           {updated("", ""), alice("patch", func(r *audit.Record) { r.Effect = audit.Nothing }), false, nobody},
		"another object of that name":         {updated("", ""), alice("patch", func(r *audit.Record) { r.UID = "v" }), false, nobody},
		"a newer version":                     {updated("", ""), alice("patch", func(r *audit.Record) { r.VersionBefore = "6" }), false, nobody},
		"an older version":                    {updated("", ""), alice("patch", func(r *audit.Record) { r.VersionBefore = "4" }), false, nobody},
		"an older version, since it retried":  {updated("", ""), alice("patch", func(r *audit.Record) { r.VersionBefore, r.Retried = "4", true }), false, nobody},
		"perhaps tried again, untold":         {alike, alice("patch", nil), false, "probable probably alice"},
		"tried again by the server":           {updated("", ""), alice("patch", func(r *audit.Record) { r.Retried = true }), false, "probable probably alice"},
		"no policy":                           {updated("", ""), alice("patch", func(r *audit.Record) { r.UID, r.VersionBefore, r.Effect = "", "", "" }), false, "probable probably alice"},
		"a put without the policy":            {updated("", ""), alice("update", func(r *audit.Record) { r.Effect = "" }), false, "probable probably alice"},
		"a put whose answer is known":         {updated("", ""), alice("update", func(r *audit.Record) { r.Effect, r.VersionAfter = "", "6" }), false, "exact alice"},
		"an answer with another version":      {updated("", ""), alice("patch", func(r *audit.Record) { r.Effect, r.VersionBefore, r.VersionAfter = "", "", "7" }), false, nobody},
		"an inferred change":                  {inferred, alice("patch", nil), false, "probable probably alice"},
		"updates may be left out":             {updated("", ""), alice("patch", nil), true, "probable probably alice"},
		"a body that was corrected":           {corrected, alice("patch", nil), false, nobody},
		"without the object before":           {unimaged, alice("patch", nil), false, "probable probably alice"},
		"at another time, by another manager": {late, alice("patch", nil), false, "exact alice"},
		"one that changed nothing":            {updated("", finalizing), alice("patch", func(r *audit.Record) { r.Effect = audit.Idle }), false, nobody},
		"stored in another form":              {updated("", ""), alice("patch", func(r *audit.Record) { r.Effect = audit.Idle }), false, "probable probably alice"},
		"one answered this version":           {late, alice("patch", func(r *audit.Record) { r.VersionBefore, r.VersionAfter, r.Effect = "", "6", "" }), false, "probable probably alice"},
		"no version, at another time":         {late, alice("patch", func(r *audit.Record) { r.UID, r.VersionBefore, r.Effect = "", "", "" }), false, "manager somebody unknown"},
		"bound":                               {bound, []audit.Record{binding}, false, "exact scheduler"},
		"a binding is no other update":        {updated("", ""), []audit.Record{binding}, false, nobody},
	})
}

// Who created or deleted an object, began its deletion, or evicted it.
func TestWhoMadeOrEndedAnObject(t *testing.T) {
	wrote := request("alice", "patch", nil)
	created := func(r *audit.Record) { r.Created, r.VersionBefore, r.Effect = true, "", "" }
	twoSteps := func(began, before change.ResourceVersion) func(*audit.Record) {
		return func(r *audit.Record) { r.VersionBegan, r.VersionBefore = began, before }
	}
	evicts := func(r *audit.Record) { r.Subresource, r.UID, r.VersionBefore, r.Effect = "eviction", "", "", "" }
	disrupted := updated("", "")
	disrupted.After = []byte(`{"metadata":{"resourceVersion":"6"},"status":{"conditions":[{"type":"DisruptionTarget"}]}}`)
	wantWho(t, map[string]whoCase{
		"created":                    {change.Change{Op: change.Create, After: podBody(6, "")}, alice("create", created), false, "exact alice"},
		"an update does not create":  {change.Change{Op: change.Create, After: podBody(6, "")}, alice("patch", nil), false, nobody},
		"created by an earlier life": {change.Change{Op: change.Create, After: podBody(6, "")}, alice("create", func(r *audit.Record) { created(r); r.UID = "v" }), false, nobody},
		"deleted":                    {gone(""), alice("delete", nil), false, "exact alice"},
		"a patch that takes it out of a selection": {gone(""), alice("patch", nil), false, "exact alice"},
		"its last finalizer removed":               {gone(ending + finalizing), []audit.Record{request("bob", "delete", func(r *audit.Record) { r.Effect = "" }), wrote}, false, "exact alice"},
		"who deletes it again does not":            {gone(ending + finalizing), alice("delete", func(r *audit.Record) { r.Effect = "" }), false, nobody},
		"its end, asked again":                     {gone(ending), alice("delete", func(r *audit.Record) { r.Effect = "" }), false, "probable probably alice"},
		"its end begins":                           {updated("", ending), alice("delete", nil), false, "exact alice"},
		"a deletion that wrote":                    {updated("", ""), alice("delete", nil), false, "exact alice"},
		"evicted":                                  {updated("", ending), alice("create", evicts), false, "probable probably alice"},
		"a collection":                             {gone(""), alice("deletecollection", func(r *audit.Record) { r.UID, r.Name, r.Labels = "", "", "app=web" }), false, "probable probably alice"},
		"a collection of others":                   {gone(""), alice("deletecollection", func(r *audit.Record) { r.UID, r.Name, r.Labels = "", "", "app=db" }), false, nobody},
		"a collection by name":                     {gone(""), alice("deletecollection", func(r *audit.Record) { r.UID, r.Name, r.Fields = "", "", "metadata.name=b" }), false, nobody},
		"a collection elsewhere":                   {gone(""), alice("deletecollection", func(r *audit.Record) { r.UID, r.Name, r.Namespace = "", "", "other" }), false, nobody},
		"a deletion in two steps, the first":       {updated("", ending), alice("delete", twoSteps("5", "6")), false, "exact alice"},
		"a deletion in two steps, the second":      {gone(ending), alice("delete", twoSteps("4", "5")), false, "exact alice"},
		"steps on another version":                 {updated("", ending), alice("delete", twoSteps("4", "6")), false, nobody},
		"an eviction says why":                     {disrupted, alice("create", evicts), false, "probable probably alice"},
		"an eviction is no other update":           {updated("", ""), alice("create", evicts), false, nobody},
		"a collection that came later":             {gone(""), alice("deletecollection", func(r *audit.Record) { r.UID, r.Name, r.Time = "", "", began.Add(3*time.Second) }), false, nobody},
	})
}

// Each late event is read once, when it has arrived. In a log without before-images, the change before has the version before.
func TestWhoWithoutImagesAndLater(t *testing.T) {
	l := &auditedLog{records: []audit.Record{request("alice", "create", func(r *audit.Record) { r.Created, r.VersionBefore = true, "" })}}
	q, err := who.ReadRequests(t.Context(), l, &sinks.Objects{}, time.Time{})
	must(t, err)
	who := func(op change.Op, version int) string {
		c := change.Change{Stream: change.ParseStream("pods"), Op: op, Namespace: "shop", Name: "a", UID: "u", Time: began,
			ResourceVersion: change.VersionOf(uint64(version)), After: podBody(version, "")}
		return q.Who(&sinks.Logged{Change: c}).Text(nil)
	}
	if got := who(change.Create, 5); got != "alice" {
		t.Error(got)
	}
	for _, r := range []audit.Record{request("bob", "patch", func(r *audit.Record) { r.Received = began.Add(3 * time.Second) }),
		request("carol", "patch", func(r *audit.Record) { r.VersionBefore, r.Received = "6", began.Add(time.Second) })} {
		l.records = append(l.records, r)
		must(t, q.Refresh(t.Context()))
	}
	if got := []string{who(change.Update, 6), who(change.Update, 7)}; got[0] != "bob" || got[1] != "carol" {
		t.Error(got)
	}
}

// Changes without a matching record count while records are there. They do not count before the first record, while their events
// may still arrive, or if their time is unknown.
func TestChangesThatNoRecordFits(t *testing.T) {
	q, err := who.ReadRequests(t.Context(), &auditedLog{records: []audit.Record{request("alice", "patch", nil)}}, &sinks.Objects{}, time.Time{})
	must(t, err)
	q.Coverage.Last = began.Add(time.Hour)
	var u who.Unmatched
	for i, c := range []struct {
		name, gap string
		received  time.Duration
	}{{"a", "", 0}, {"b", "", 20 * time.Minute}, {"c", "", 10 * time.Minute}, {"d", "", -time.Minute}, {"e", "", 59*time.Minute + time.Second},
		{"f", "gap", 30 * time.Minute}} {
		l := &sinks.Logged{Change: updated("", "")}
		l.Stream, l.Namespace, l.Name, l.UID = change.ParseStream("pods"), "shop", c.name, "u"
		l.ResourceVersion, l.Change.Time, l.Gap = "6", began.Add(c.received), c.gap
		if requester := q.Who(l); (requester.Grade == who.Exact) != (i == 0) {
			t.Errorf("%s: %+v", c.name, requester)
		} else {
			u.Count(q, l, requester)
		}
	}
	want := fmt.Sprintf("no audit event fits 2 of 3 changes, between %s and %s", began.Add(10*time.Minute).Format(time.RFC3339), began.Add(20*time.Minute).Format(time.RFC3339))
	if got := u.Text(func(t time.Time) string { return t.Format(time.RFC3339) }); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// An exporter that was stopped reads a deletion ten minutes late, without a gap. Who requested it is searched in all of that time.
func TestWhoMadeAChangeThatWasReadLate(t *testing.T) {
	deletion := gone("")
	deletion.Stream, deletion.Namespace, deletion.Name, deletion.UID, deletion.ResourceVersion = change.ParseStream("pods"), "shop", "a", "u", "6"
	deletion.Time = minute(10)
	for isLate, want := range map[bool]string{false: nobody, true: "exact alice"} {
		l := &auditedLog{records: alice("delete", func(r *audit.Record) { r.VersionBefore, r.Effect = "", "" })}
		q, err := who.ReadRequests(t.Context(), l, &sinks.Objects{}, time.Time{})
		must(t, err)
		q.ReadLate = func(*sinks.Logged) bool { return isLate }
		w := q.Who(&sinks.Logged{Change: deletion})
		if got := string(w.Grade) + " " + w.Text(nil); got != want {
			t.Errorf("late: %t: %s, want %s", isLate, got, want)
		}
	}
}

// A log that is followed has ever more requests. Old ones are dropped, and new ones still answer.
func TestRequestsOfAFollowedLog(t *testing.T) {
	l := &auditedLog{}
	q, err := who.ReadRequests(t.Context(), l, &sinks.Objects{}, began)
	must(t, err)
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc >> 10)
	}
	before, n := heap(), 0
	for i := range 400 {
		l.records = l.records[:0]
		now := began.Add(time.Duration(i) * time.Minute)
		for range 500 {
			n++
			l.records = append(l.records, request("alice", "patch", func(r *audit.Record) {
				r.ID, r.AuditID, r.Name, r.Time, r.Answered, r.Received = fmt.Sprint(n), fmt.Sprintf("5dbc599e-0726-%012d", n), fmt.Sprint("web-", n), now, now, now
				r.VersionBefore = change.VersionOf(uint64(n))
			}))
		}
		must(t, q.Refresh(t.Context()))
		c := updated("", "")
		c.Stream, c.Namespace, c.Name, c.UID = change.ParseStream("pods"), "shop", fmt.Sprint("web-", n), "u"
		c.Before, c.After, c.ResourceVersion, c.Time = podBody(n, ""), podBody(n+1, ""), change.VersionOf(uint64(n+1)), now
		if w := q.Who(&sinks.Logged{Change: c}); w.Grade != who.Exact {
			t.Fatalf("change %d: %+v", n, w)
		}
		c.Op, c.Before, c.After = change.Delete, c.After, nil
		q.Who(&sinks.Logged{Change: c})
		q.Forget(time.Now().Add(time.Duration(i) * time.Minute))
	}
	if more := heap() - before; more > 5_000 {
		t.Errorf("%d KB more after %d requests", more, n)
	}
	runtime.KeepAlive(q)
}

// A label takes a pod out of a selection, and somebody deletes it later. That event has no version.
func TestWhoDeletesLaterDidNotTakeItOut(t *testing.T) {
	left := gone("")
	left.Stream, left.Namespace, left.Name, left.UID, left.ResourceVersion = change.ParseStream("pods?labels=app=web"), "shop", "a", "u", "6"
	if left.Time = began; left.Stream.LabelSelector == "" {
		t.Fatalf("%+v has no selector", left.Stream)
	}
	l := &auditedLog{records: []audit.Record{
		request("alice", "patch", func(r *audit.Record) { r.VersionBefore, r.Effect, r.VersionAfter = "", "", "6" }),
		request("bob", "delete", func(r *audit.Record) {
			r.VersionBefore, r.Effect, r.Time, r.Answered = "", "", began.Add(time.Second), began.Add(2*time.Second)
		})}}
	q, err := who.ReadRequests(t.Context(), l, &sinks.Objects{}, time.Time{})
	must(t, err)
	if w := q.Who(&sinks.Logged{Change: left}); w.Grade != who.Probable || w.User != "alice" {
		t.Errorf("%+v", w)
	}
}

// A difference names no user whose request failed.
func TestADifferenceNamesThoseWhoWrote(t *testing.T) {
	l := &auditedLog{records: []audit.Record{request("alice", "patch", nil), request("bob", "patch", func(r *audit.Record) { r.Code = 500 }),
		request("carol", "patch", func(r *audit.Record) { r.Code = 0 })}}
	q, err := who.ReadRequests(t.Context(), l, &sinks.Objects{}, time.Time{})
	must(t, err)
	object := func(version string) *query.Object {
		return &query.Object{Resource: "pods", Namespace: "shop", Name: "a", ResourceVersion: change.ResourceVersion(version),
			Body: []byte(`{"metadata":{"uid":"u"}}`)}
	}
	if users := query.UsersBetween(q, object("5"), object("6")); !slices.Equal(users, []string{"alice"}) {
		t.Errorf("%q", users)
	}
}

// Who requested the deletion of an object with finalizers is named with who removed the last one, and found by either.
func TestADeletionHasTwoUsers(t *testing.T) {
	ends := updated(finalizing, ending+finalizing)
	ended := change.Change{Op: change.Delete, Before: podBody(6, ending+finalizing), ResourceVersion: "7"}
	l := &auditedLog{records: []audit.Record{request("alice", "delete", nil),
		request("operator", "update", func(r *audit.Record) { r.Effect, r.VersionBefore, r.VersionAfter = "", "6", "6" })}}
	q, err := who.ReadRequests(t.Context(), l, &sinks.Objects{}, time.Time{})
	must(t, err)
	var w *who.Who
	for _, c := range []*change.Change{&ends, &ended} {
		c.Stream, c.Namespace, c.Name, c.UID, c.Time = change.ParseStream("pods"), "shop", "a", "u", began.Add(time.Second)
		c.ResourceVersion = cmp.Or(c.ResourceVersion, "6")
		w = q.Who(&sinks.Logged{Change: *c})
	}
	if got := w.Text(nil); got != "probably operator, asked by alice" || !w.Is("alice") || !w.Is("operator") {
		t.Errorf("%s: %+v", got, w)
	}
	for expression, want := range map[string]bool{`by == "alice" && op == "d"`: true, `by == "operator"`: true, `by == "bob"`: false} {
		f, err := query.NewFilter(expression)
		must(t, err)
		if got, err := f.Selects(&sinks.Logged{Change: ended}, w); got != want || err != nil {
			t.Errorf("%s: %t, %v", expression, got, err)
		}
	}
}

var must = require.NoError

package sinktest

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"kubecdc/audit"
	"kubecdc/sinks"
	"kubecdc/test/hostile"
)

// auditContract is for sinks that store audit records, and their readers.
var auditContract = []part{
	{"an audit record is stored once, whoever writes it and however often", auditOnce},
	{"audit records are stored in any order", auditUnordered},
	{"a reader finds the audit records that a query selects", auditSelected},
	{"a log says of which time it has audit records, however late they came", auditCoverage},
	{"hostile names and users in audit records stop nothing", auditHostile},
	{"audit records are written while batches are", auditConcurrently},
}

// auditRecord returns the n-th record, with all fields.
func auditRecord(n int) audit.Record {
	return auditRecordAt(n, time.Date(2026, 3, 1, 10, 0, 0, n*1000, time.UTC))
}

func auditRecordAt(n int, t time.Time) audit.Record {
	return audit.Record{ID: fmt.Sprintf("%012x%020x", t.UnixMilli(), n), AuditID: fmt.Sprint("request ", n), Time: t, Answered: t.Add(time.Millisecond),
		Received: t.Add(time.Minute), VersionBegan: "122", Resource: "deployments.apps", Namespace: "shop", Name: fmt.Sprint("web-", n%7), UID: hostile.UID(n % 7),
		VersionBefore: "10000000000000000000000000001", VersionAfter: "1235", Effect: audit.Wrote, Verb: "patch", Subresource: "scale", Code: 200, Manager: "kubectl", Retried: n%2 == 0,
		User: "alice", Groups: []string{"dev", "ops"}, Impersonated: fmt.Sprint("user ", n%3), Extra: map[string][]string{"scopes": {"a", "b"}},
		UserAgent: "kubectl/v1.36", Addresses: []string{"10.0.0.7"}}
}

func auditRecords(from, to int) (all []audit.Record) {
	for n := from; n < to; n++ {
		all = append(all, auditRecord(n))
	}
	return all
}

func (w *world) audits(t *testing.T, records ...audit.Record) {
	t.Helper()
	must(t, w.sink(t).(sinks.AuditLog).WriteAudit(t.Context(), records))
}

func (w *world) wantAudits(t *testing.T, q audit.Query, want ...audit.Record) {
	t.Helper()
	var got []audit.Record
	_, err := w.reader(t).Audits(t.Context(), q, func(r *audit.Record) error {
		got = append(got, *r)
		return nil
	})
	must(t, err)
	byID := func(a, b audit.Record) int { return cmp.Compare(a.ID, b.ID) }
	slices.SortFunc(got, byID)
	want = slices.SortedFunc(slices.Values(want), byID)
	if len(got) != len(want) {
		t.Fatalf("%+v selects %d records, want %d", q, len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("%+v selects\n%+v\nwant\n%+v", q, got[i], want[i])
		}
	}
}

func auditOnce(t *testing.T, w *world) {
	all := auditRecords(0, 300)
	var wg sync.WaitGroup
	for range 3 {
		log := w.sink(t).(sinks.AuditLog)
		wg.Go(func() {
			for from := 0; from < 300; from += 50 {
				if err := log.WriteAudit(context.WithoutCancel(t.Context()), append(all[from:from+50:from+50], all[from])); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	w.audits(t) // no records
	w.audits(t, all...)
	w.wantAudits(t, audit.Query{}, all...)
}

func auditUnordered(t *testing.T, w *world) {
	late := auditRecord(1)
	late.Received = late.Received.Add(-time.Hour) // the exporter's clock went back
	w.audits(t, auditRecord(2), late)
	w.audits(t, auditRecord(0))
	w.wantAudits(t, audit.Query{}, auditRecord(0), late, auditRecord(2))
}

func auditSelected(t *testing.T, w *world) {
	all := auditRecords(0, 21)
	all[3].Namespace = "bank"
	all[4].Resource = "pods"
	all[5].Impersonated = ""
	all[8] = audit.Record{ID: all[8].ID, AuditID: "c", Time: all[8].Time, Answered: all[8].Answered, Received: all[8].Received.Add(time.Hour),
		Resource: "pods", Namespace: "shop", Verb: "deletecollection", Labels: "app=web", Fields: "status.phase=Failed", User: "bob", Code: 200}
	all[9].Created, all[9].VersionBefore = true, ""
	w.audits(t, all...)
	other := w.another(t, "another", "")
	must(t, other.(sinks.AuditLog).WriteAudit(t.Context(), []audit.Record{auditRecord(77)}))
	for _, q := range []audit.Query{{}, {Resources: []string{"pods"}}, {Resources: []string{"pods", "deployments.apps"}}, {Namespace: "bank"},
		{Name: "web-1"}, {Resources: []string{"pods"}, Name: "web-4"}, {Name: "web-1", Namespace: "shop"}, {Since: all[4].Received},
		{Since: all[20].Received.Add(time.Minute)}, {Since: all[8].Received.Add(time.Hour)}, {Resources: []string{"nodes"}},
		{Name: "web-1", Since: all[15].Received}} {
		var want []audit.Record
		for _, r := range all {
			if (q.Resources == nil || slices.Contains(q.Resources, r.Resource)) && (q.Namespace == "" || q.Namespace == r.Namespace) &&
				(q.Name == "" || r.Name == "" || q.Name == r.Name) && !r.Received.Before(q.Since) {
				want = append(want, r)
			}
		}
		w.wantAudits(t, q, want...)
	}
}

func auditCoverage(t *testing.T, w *world) {
	none := audit.Query{Resources: []string{"none"}}
	if c, err := w.reader(t).Audits(t.Context(), none, nil); err != nil || !c.Since.IsZero() || !c.Last.IsZero() {
		t.Errorf("an empty log: %+v, %v", c, err)
	}
	r := w.reader(t)
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	covers := func(since, last time.Duration) {
		t.Helper()
		for _, from := range []sinks.Reader{r, w.reader(t)} {
			if c, err := from.Audits(t.Context(), none, func(*audit.Record) error { return nil }); err != nil || !c.Since.Equal(noon.Add(since)) || !c.Last.Equal(noon.Add(last)) {
				t.Errorf("it has them from %s to %s, want from noon %s to %s: %v", c.Since, c.Last, since, last, err)
			}
		}
	}
	came := func(n int, asked time.Duration) {
		record := auditRecordAt(n, noon.Add(asked))
		record.Received = noon.Add(24*time.Hour + time.Duration(n)*time.Minute)
		w.audits(t, record)
	}
	came(1, 0)
	covers(0, 0)
	came(2, 5*time.Minute)
	came(3, time.Minute)
	covers(0, 5*time.Minute)
	came(4, -time.Hour) // a record that took long to arrive
	covers(-time.Hour, 5*time.Minute)
}

func auditHostile(t *testing.T, w *world) {
	var all []audit.Record
	for i, name := range append(hostile.Names(), hostile.Case{Text: ""}) {
		r := auditRecord(i)
		r.AuditID, r.Namespace, r.Name, r.Impersonated, r.Manager, r.UserAgent = name.Text, name.Text, name.Text, name.Text, name.Text, name.Text
		r.Groups, r.Extra, r.UID = []string{name.Text}, map[string][]string{name.Text: {name.Text}}, name.Text
		r.Subresource, r.Labels = name.Text, name.Text
		all = append(all, r)
	}
	w.audits(t, all...)
	w.wantAudits(t, audit.Query{}, all...)
	for _, r := range all {
		if r.Name != "" {
			w.wantAudits(t, audit.Query{Name: r.Name}, r, all[len(all)-1])
		}
	}
}

func auditConcurrently(t *testing.T, w *world) {
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	done, stop := make(chan struct{}), make(chan struct{})
	auditLog := w.sink(t).(sinks.AuditLog)
	written := 0
	go func() {
		defer close(done)
		for ; ; written += 100 {
			select {
			case <-stop:
				return
			default:
			}
			if err := auditLog.WriteAudit(t.Context(), auditRecords(written, written+100)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for seq := range 50 {
		w.write(t, log, batch(1, uint64(seq+1), object("a", seq+10)))
	}
	close(stop)
	<-done
	w.wantAudits(t, audit.Query{}, auditRecords(0, written)...)
}

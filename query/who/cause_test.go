package who_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/query/who"
	"kubecdc/sinks"
)

// A deletion is explained by the deletion of its owner, by uid, or of its namespace while that lasts. Nothing else is claimed.
func TestWhatCausedADeletion(t *testing.T) {
	l := &ownersLog{}
	l.add("replicasets.apps", "web", "rs-1", change.Create, 0, `{}`)
	l.add("replicasets.apps", "web", "rs-1", change.Delete, 10, `{}`)
	l.add("replicasets.apps", "web", "rs-2", change.Create, 11, `{}`)
	l.add("replicasets.apps", "slow", "rs-3", change.Update, 20, `{"metadata":{"deletionTimestamp":"2026-06-01T12:20:00Z"}}`)
	l.add("namespaces", "shop", "ns-1", change.Update, 30, `{"metadata":{"deletionTimestamp":"2026-06-01T12:30:00Z"}}`)
	l.add("namespaces", "shop", "ns-1", change.Delete, 40, `{}`)
	l.add("namespaces", "shop", "ns-2", change.Create, 41, `{}`)
	for _, tc := range []struct {
		minute             int
		owner, uid, before string
		want               string
	}{
		{12, "web", "rs-1", "", "with its owner ReplicaSet web"},
		{9, "web", "rs-1", "", ""},  // the owner was deleted later
		{12, "web", "rs-2", "", ""}, // another object of that name
		{25, "slow", "rs-3", "", "with its owner ReplicaSet slow"},
		{25, "gone", "rs-9", "", ""},
		{35, "web", "rs-2", "", "with its namespace"},
		{45, "web", "rs-2", "", ""}, // in the next life of the namespace
		{35, "", "", `{}`, "with its namespace"},
		{12, "", "", `{"metadata":{"ownerReferences":[{"apiVersion":"example.com/v1","kind":"ReplicaSet","name":"web","uid":"rs-1"}]}}`, ""},
	} {
		before := tc.before
		if before == "" {
			before = fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":%q,"uid":%q}]}}`, tc.owner, tc.uid)
		}
		d := who.DeletionOf(&sinks.Logged{Change: change.Change{Stream: change.ParseStream("pods"), Op: change.Delete, Namespace: "shop",
			Name: "web-1", Before: []byte(before), Time: minute(tc.minute)}}, nil)
		if err := who.Causes(t.Context(), l, []*who.Deletion{d}); err != nil || d.Cause != tc.want {
			t.Errorf("%+v: %q, %v", tc, d.Cause, err)
		}
	}
}

// An owner's deletion that was read late began the cascade when it was requested.
func TestACascadeThatWasReadLate(t *testing.T) {
	for isLate, want := range map[bool]string{false: "with its owner ReplicaSet web",
		true: "with its owner ReplicaSet web, because of replicasets.apps web, deleted by probably alice"} {
		l := &auditedOwners{records: &auditedLog{records: alice("delete", func(r *audit.Record) {
			r.Resource, r.Namespace, r.Name, r.UID, r.VersionBefore, r.Effect = "replicasets.apps", "", "web", "rs-1", "", ""
		})}}
		l.add("replicasets.apps", "web", "rs-1", change.Delete, 10, `{}`)
		if behind := change.BehindControl("replicasets.apps", "", minute(0), minute(10)); isLate {
			l.controls = append(l.controls, &behind)
		}
		d := who.DeletionOf(&sinks.Logged{Change: change.Change{Stream: change.ParseStream("pods"), Op: change.Delete, Namespace: "shop", Name: "web-1",
			Before: []byte(`{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"rs-1"}]}}`),
			Time:   minute(12)}}, &who.Who{})
		if err := who.Causes(t.Context(), l, []*who.Deletion{d}); err != nil || d.Cause != want {
			t.Errorf("late: %t: %q, %v", isLate, d.Cause, err)
		}
	}
}

// A deletion is no cascade if it is older than the owner's, or a person's own. If both are read at about the same time, their
// versions decide. An object was in the namespace that is not younger, also if its deletion is read after the namespace's end.
func TestADeletionBeforeItsOwners(t *testing.T) {
	l := &auditedOwners{records: &auditedLog{}}
	l.add("replicasets.apps", "web", "rs-1", change.Delete, 10, "")
	l.add("namespaces", "shop", "ns-1", change.Create, 1, `{"metadata":{"creationTimestamp":"2026-06-01T12:01:00Z"}}`)
	l.add("namespaces", "shop", "ns-1", change.Update, 30, `{"metadata":{"creationTimestamp":"2026-06-01T12:01:00Z","deletionTimestamp":"2026-06-01T12:30:00Z"}}`)
	l.add("namespaces", "shop", "ns-1", change.Delete, 40, "")
	l.add("namespaces", "shop", "ns-2", change.Create, 41, `{"metadata":{"creationTimestamp":"2026-06-01T12:41:00Z"}}`)
	for _, c := range l.changes {
		c.ResourceVersion = change.VersionOf(uint64(c.Time.Sub(began)/time.Minute) * 100)
	}
	const owned = `{"metadata":{"creationTimestamp":"2026-06-01T12:%s:00Z","ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"rs-1"}]}}`
	person, collector := &who.Who{Grade: who.Exact, User: "bob"}, &who.Who{Grade: who.Exact, User: "system:serviceaccount:kube-system:generic-garbage-collector"}
	for _, tc := range []struct {
		seen      time.Duration
		version   change.ResourceVersion
		created   string
		inferred  bool
		requester *who.Who
		want      string
	}{
		{10*time.Minute - time.Millisecond, "1001", "05", false, nil, "with its owner ReplicaSet web"}, // its stream was read sooner
		{10*time.Minute + time.Millisecond, "999", "05", false, nil, ""},
		{10*time.Minute - time.Millisecond, "1001", "05", true, nil, ""}, // the version is the object's
		{12 * time.Minute, "1200", "05", false, nil, "with its owner ReplicaSet web"}, {12 * time.Minute, "1200", "05", false, person, ""},
		{12 * time.Minute, "1200", "05", false, &who.Who{Grade: who.Unknown, AskedBy: person}, ""},
		{12 * time.Minute, "1200", "05", false, collector, "with its owner ReplicaSet web"},
		{42 * time.Minute, "3900", "20", true, nil, "with its owner ReplicaSet web"}, {42 * time.Minute, "4200", "41", false, nil, "with its owner ReplicaSet web"},
	} {
		for _, isOwned := range []bool{true, false} {
			before, want := fmt.Sprintf(owned, tc.created), tc.want
			if !isOwned {
				before = fmt.Sprintf(`{"metadata":{"creationTimestamp":"2026-06-01T12:%s:00Z"}}`, tc.created)
				if want = ""; tc.created == "20" {
					want = "with its namespace"
				}
			}
			d := who.DeletionOf(&sinks.Logged{Change: change.Change{Stream: change.ParseStream("pods"), Op: change.Delete, Namespace: "shop", Name: "web-1",
				Before: []byte(before), Time: began.Add(tc.seen), ResourceVersion: tc.version, Inferred: tc.inferred}}, tc.requester)
			if err := who.Causes(t.Context(), l, []*who.Deletion{d}); err != nil || d.Cause != want {
				t.Errorf("%+v, owned: %t: %q, want %q, %v", tc, isOwned, d.Cause, want, err)
			}
		}
	}
}

type auditedOwners struct {
	ownersLog
	records *auditedLog
}

func (l *auditedOwners) Audits(ctx context.Context, q audit.Query, visit func(*audit.Record) error) (audit.Coverage, error) {
	return l.records.Audits(ctx, q, visit)
}

func (l *auditedOwners) Retained(_ context.Context, resources []string) (map[string]sinks.Retained, error) {
	return map[string]sinks.Retained{resources[0]: {}}, nil
}

type ownersLog struct{ log }

func (l *ownersLog) Resources(context.Context) ([]string, error) {
	return []string{"namespaces", "pods", "replicasets.apps"}, nil
}

func (l *ownersLog) add(resource, name, uid string, op change.Op, m int, after string) {
	c := change.Change{Stream: change.ParseStream(change.StreamID(resource)), Op: op, Name: name, UID: uid, Time: minute(m)}
	if op != change.Delete {
		c.After = []byte(after)
	}
	l.changes = append(l.changes, &sinks.Logged{Change: c})
}

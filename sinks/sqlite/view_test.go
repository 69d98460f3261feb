package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/sinktest"
	"kubecdc/sinks/sqlite"
)

// The view names who is known to have written a version: nobody by a write that the API server tried several times.
func TestTheViewNamesWhoIsCertain(t *testing.T) {
	for retried, want := range map[bool]string{false: "c alice, u bob", true: "c alice, u nobody"} {
		file := own(t, filepath.Join(t.TempDir(), "log"))
		s := newSink(t, file, sqlite.Config{Cluster: sinktest.Name})
		opened, err := s.Open(t.Context(), 0, 1, sinks.Durable{New: true})
		if err != nil {
			t.Fatal(err)
		}
		b := change.Batch{Epoch: 1, Seq: 1}
		for i, op := range []change.Op{change.Create, change.Update} {
			b.Changes = append(b.Changes, change.Change{Stream: change.ParseStream("pods"), Op: op, Namespace: "shop", Name: "web", UID: "u",
				ResourceVersion: change.VersionOf(uint64(10 + i)), After: fmt.Appendf(nil, `{"i":%d}`, i)})
		}
		if _, err := opened.Log.Write(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		of := audit.Record{Resource: "pods", Namespace: "shop", Name: "web", UID: "u", Code: 200, Effect: audit.Wrote}
		created, updated := of, of
		created.ID, created.User, created.Created = fmt.Sprintf("%032x", 1), "alice", true
		updated.ID, updated.User, updated.VersionBefore, updated.Retried = fmt.Sprintf("%032x", 2), "bob", "10", retried
		if err := s.WriteAudit(t.Context(), []audit.Record{created, updated}); err != nil {
			t.Fatal(err)
		}
		var got string
		const look = `select group_concat(op || ' ' || coalesce(user, 'nobody'), ', ' order by version) from changes_by`
		if err := file.DB().QueryRowContext(t.Context(), look).Scan(&got); err != nil || got != want {
			t.Errorf("retried %t: the view has %s, want %s, %v", retried, got, want, err)
		}
		_ = opened.Log.Close()
	}
}

package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/postgres"
	"kubecdc/test/servers"
)

// The server's clock goes back with each batch, and one stream moves from slot to slot. Every way to read the log returns its
// order.
func TestAClockThatStepsBackChangesNoOrder(t *testing.T) {
	e := newEra(t, servers.Database)
	sink := e.sink(t, "prod", threeDays)
	var log sinks.Log
	for seq, batch := range []struct {
		slot  int
		epoch int64
		seq   uint64
	}{{0, 1, 1}, {0, 1, 2}, {1, 1, 1}, {1, 1, 2}, {0, 2, 3}, {0, 2, 4}} {
		rows(t, e.direct, fmt.Sprintf(`create or replace function kubecdc_log.clock() returns timestamptz language sql
			as 'select timestamptz ''2026-06-01 12:00:00+00'' - interval ''%d hours'''`, seq))
		if seq%2 == 0 {
			log, _ = openTail(t, sink, batch.slot, batch.epoch, sinks.Durable{Seq: batch.seq - 1})
		}
		op, version := change.Update, fmt.Sprint(10*(seq+1))
		if seq == 0 {
			op = change.Create
		}
		b := numberedOn(pods, int(batch.seq), event(pods, op, "p", "u", version))
		b.Slot, b.Epoch, b.Positions[0].ResourceVersion = batch.slot, batch.epoch, change.ResourceVersion(version)
		write(t, log, b)
	}
	wantOrder(t, e.url, "10 20 30 40 50 60")
	log, _ = openTail(t, sink, 1, 9, sinks.Durable{New: true})
	past, err := log.(sinks.Content).State(t.Context(), sinks.Selection{Stream: func(change.StreamID) bool { return true }})
	if err != nil || len(past.Positions) != 1 || past.Positions[0].ResourceVersion != "60" {
		t.Errorf("a checkpoint that is rebuilt gets the positions %v, %v", past.Positions, err)
	}
	record := audit.Record{ID: strings.Repeat("0", 32), Resource: "pods", Namespace: "default", Name: "p", UID: "u", Code: 200, User: "bob", Verb: "patch",
		Effect: audit.Wrote, VersionBefore: "40", Received: time.Now(), Time: time.Now(), Answered: time.Now()}
	must(t, sink.WriteAudit(t.Context(), []audit.Record{record}))
	wantRows(t, e.direct, `select version, username from changes_by where username is not null`, "50|bob")
}

// An earlier release has written while the clock went back. Its log gets the right order at the first start.
func TestALogOfAClockThatSteppedBackIsMended(t *testing.T) {
	e := newEra(t, servers.Database)
	log, _ := openTail(t, e.sink(t, "prod", threeDays), 0, 1, sinks.Durable{})
	for seq := 1; seq <= 3; seq++ {
		b := numberedOn(pods, seq, event(pods, change.Update, "p", "u", fmt.Sprint(seq)))
		b.Controls = []change.Control{{Type: change.ControlProof, Stream: "pods"}}
		write(t, log, b)
	}
	log.Close()
	for _, table := range []string{"batches where seq", "changes where batch", "control where batch"} {
		from, number, _ := strings.Cut(table, " where ")
		rows(t, e.direct, fmt.Sprintf("update %s set written = written - %s * interval '1 minute' where %[2]s > 1", from, number))
	}
	rows(t, e.direct, `alter table slots drop column written, drop column recorded; alter table batches drop column sum; drop index objects_by_stream, control_begins, objects_by_key, changes_deleted, changes_found;
		drop table counts, schemas;
		delete from migrations where version >= 3`)
	e.sink(t, "prod", threeDays)
	wantOrder(t, e.url, "1 2 3")
	for _, table := range []string{"batches", "changes", "control"} {
		wantRows(t, e.direct, `select count(distinct b.written), count(*) from batches b join slots s using (written), `+table+` o where o.written = b.written`, "1|9")
	}
}

// wantOrder reads the versions of one object in each possible way.
func wantOrder(t *testing.T, url, want string) {
	t.Helper()
	r, err := postgres.OpenReader(t.Context(), postgres.Config{URL: url, Cluster: "prod"})
	must(t, err)
	defer r.Close()
	for _, name := range []string{"", "p"} {
		var versions []string
		err := r.Changes(t.Context(), sinks.Query{Name: name}, func(l *sinks.Logged) error {
			versions = append(versions, string(l.ResourceVersion))
			return nil
		})
		if got := strings.Join(versions, " "); err != nil || got != want {
			t.Errorf("changes of %q come in the order %s, want %s: %v", name, got, want, err)
		}
	}
	var positions []string
	err = r.Controls(t.Context(), time.Time{}, nil, func(c *change.Control) error {
		for _, p := range c.Positions {
			positions = append(positions, string(p.ResourceVersion))
		}
		return nil
	})
	if got := strings.Join(positions, " "); err != nil || got != want {
		t.Errorf("positions come in the order %s, want %s: %v", got, want, err)
	}
}

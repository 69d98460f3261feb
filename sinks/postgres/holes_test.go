package postgres_test

import (
	"fmt"
	"testing"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/postgres"
	"kubecdc/test/servers"
)

// Somebody removes batches from the middle of the log, over the change of an owner. A reader, a new owner and a proof find the
// hole until records explain it. A log whose end was given up after a failover has no hole, and neither has one whose history
// begins later.
func TestBatchesThatSomebodyHasRemovedAreAHole(t *testing.T) {
	url := servers.Database(t)
	sink := open(t, url, "prod")
	defer sink.Close()
	reader, err := postgres.OpenReader(t.Context(), postgres.Config{URL: url, Cluster: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	want := func(from, to string) *sinks.Hole {
		t.Helper()
		hole, err := reader.Hole(t.Context())
		got := ""
		if hole != nil {
			g := hole.Records()[0].Gap
			got = fmt.Sprint(g.From, " ", g.To)
		}
		if wanted := map[bool]string{true: "", false: from + " " + to}[from == ""]; err != nil || got != wanted {
			t.Fatalf("the hole is %q, %v, want %q", got, err, wanted)
		}
		return hole
	}
	several := func(log sinks.Log, epoch int64, first, last uint64) {
		for seq := first; seq <= last; seq++ {
			write(t, log, numbered(epoch, seq))
		}
	}
	owner := func(epoch int64, last uint64) sinks.Log {
		t.Helper()
		opened, err := sink.Open(t.Context(), 0, epoch, sinks.Durable{Seq: last})
		if err != nil || opened.Hole != nil {
			t.Fatalf("the hole is %v, %v", opened.Hole, err)
		}
		return opened.Log
	}
	remove := func(first, last int) {
		for table, column := range map[string]string{"batches": "seq", "changes": "batch", "control": "batch"} {
			rows(t, url, fmt.Sprintf("delete from %s where %s between %d and %d", table, column, first, last))
		}
	}
	several(owner(1, 0), 1, 1, 10)
	several(owner(2, 10), 2, 11, 20)
	want("", "")
	remove(1, 3) // as the retention
	want("", "")

	remove(8, 13)
	want("7", "14")
	opened, err := sink.Open(t.Context(), 0, 3, sinks.Durable{Seq: 20})
	if err != nil || opened.Hole == nil || opened.Lost != nil {
		t.Fatalf("a new owner finds the hole %v and the loss %v: %v", opened.Hole, opened.Lost, err)
	}
	proved := numbered(3, 21)
	proved.Controls = []change.Control{change.ProofControl("pods", "21", &change.Proof{})}
	if _, err := opened.Log.Write(t.Context(), proved); err == nil {
		t.Error("a write with a proof finds no hole")
	}
	explained := numbered(3, 22)
	explained.Controls = opened.Hole.Records()
	write(t, opened.Log, explained)
	want("", "")

	remove(22+1, 30)
	rows(t, url, `update slots set seq = 22`) // the server failed over to a standby that was behind
	if opened, err = sink.Open(t.Context(), 0, 4, sinks.Durable{Seq: 25}); err != nil || opened.Lost == nil {
		t.Fatalf("the loss is %v, %v", opened.Lost, err)
	}
	several(opened.Log, 4, 26, 30)
	want("", "")
	several(owner(5, 30), 5, 31, 40)
	remove(29, 34)
	want("28", "35")
}

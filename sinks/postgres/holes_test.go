package postgres_test

import (
	"fmt"
	"testing"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/postgres"
	"kubecdc/test/servers"
)

// holeTest is a log from which somebody removes batches.
type holeTest struct {
	url    string
	sink   *postgres.Sink
	reader *postgres.Reader
}

func newHoleTest(t *testing.T) *holeTest {
	x := &holeTest{url: servers.Database(t)}
	x.sink = open(t, x.url, "prod")
	t.Cleanup(func() { x.sink.Close() })
	var err error
	if x.reader, err = postgres.OpenReader(t.Context(), postgres.Config{URL: x.url, Cluster: "prod"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.reader.Close() })
	return x
}

// want demands that a reader finds a hole between two positions, or none.
func (x *holeTest) want(t *testing.T, from, to string) {
	t.Helper()
	hole, err := x.reader.Hole(t.Context())
	got := ""
	if hole != nil {
		g := hole.Records()[0].Gap
		got = fmt.Sprint(g.From, " ", g.To)
	}
	if wanted := map[bool]string{true: "", false: from + " " + to}[from == ""]; err != nil || got != wanted {
		t.Fatalf("the hole is %q, %v, want %q", got, err, wanted)
	}
}

// write writes several batches.
func (x *holeTest) write(t *testing.T, log sinks.Log, epoch int64, first, last uint64) {
	for seq := first; seq <= last; seq++ {
		write(t, log, numbered(epoch, seq))
	}
}

// open opens the log for an owner that finds no hole.
func (x *holeTest) open(t *testing.T, epoch int64, last uint64) sinks.Log {
	t.Helper()
	opened, err := x.sink.Open(t.Context(), 0, epoch, sinks.Durable{Seq: last})
	if err != nil || opened.Hole != nil {
		t.Fatalf("the hole is %v, %v", opened.Hole, err)
	}
	return opened.Log
}

func (x *holeTest) remove(t *testing.T, first, last int) {
	for table, column := range map[string]string{"batches": "seq", "changes": "batch", "control": "batch"} {
		rows(t, x.url, fmt.Sprintf("delete from %s where %s between %d and %d", table, column, first, last))
	}
}

// Somebody removes batches from the middle of the log, over the change of an owner. A reader, a new owner and a proof find the
// hole until records explain it. A log whose end was given up after a failover has no hole, and neither has one whose oldest batches the
// retention has dropped.
func TestBatchesThatSomebodyHasRemovedAreAHole(t *testing.T) {
	x := newHoleTest(t)
	x.write(t, x.open(t, 1, 0), 1, 1, 10)
	x.write(t, x.open(t, 2, 10), 2, 11, 20)
	x.want(t, "", "")
	x.remove(t, 1, 3)
	x.want(t, "1", "4")
	rows(t, x.url, `insert into positions values ('prod', 'pods', '3', now(), '', now())`) // it was the retention
	x.want(t, "", "")

	x.remove(t, 8, 13)
	x.want(t, "7", "14")
	opened, err := x.sink.Open(t.Context(), 0, 3, sinks.Durable{Seq: 20})
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
	x.want(t, "", "")

	x.remove(t, 22+1, 30)
	rows(t, x.url, `update slots set seq = 22`) // the server failed over to a standby that was behind
	if opened, err = x.sink.Open(t.Context(), 0, 4, sinks.Durable{Seq: 25}); err != nil || opened.Lost == nil {
		t.Fatalf("the loss is %v, %v", opened.Lost, err)
	}
	x.write(t, opened.Log, 4, 26, 30)
	x.want(t, "", "")
	x.write(t, x.open(t, 5, 30), 5, 31, 40)
	x.remove(t, 29, 34)
	x.want(t, "28", "35")
}

// Somebody changes what a batch has, in any table. A reader finds the positions around the batch, until records explain it. Batches of
// an earlier release have no checksum.
func TestABatchThatSomebodyHasChangedIsAHole(t *testing.T) {
	for _, damage := range []string{
		`update changes set time = time + interval '1 microsecond' where batch = 5 and n = 100`,
		`update changes set after = '{"kind": "Other"}' where batch = 5 and n = 7`,
		`update changes set gap = '' where batch = 5 and n = 1`,
		`update changes set n = 101 where batch = 5 and n = 1`,
		`delete from changes where batch = 5 and n = 50`,
		`update control set record = '{}' where batch = 5`,
		`delete from control where batch = 5`,
		`update batches set positions = (positions::text || ' ')::json where seq = 5`,
	} {
		t.Run(damage, func(t *testing.T) {
			t.Parallel()
			x := newHoleTest(t)
			log := x.open(t, 1, 0)
			for seq := range uint64(9) {
				b := numbered(1, seq+1)
				b.Controls = []change.Control{change.SnapshotBeginControl("nodes", "\x00 \u2028")}
				write(t, log, b)
			}
			x.want(t, "", "")
			rows(t, x.url, damage)
			x.want(t, "4", "5")
			hole, err := x.reader.Hole(t.Context())
			must(t, err)
			explained := numbered(1, 10)
			explained.Controls = hole.Records()
			write(t, log, explained)
			x.want(t, "", "")
			rows(t, x.url, `update batches set sum = null`)
			rows(t, x.url, `delete from control where batch = 10`)
			x.want(t, "", "")
			rows(t, x.url, `alter table batches drop column sum`) // a release before it
			write(t, log, numbered(1, 11))
			x.want(t, "", "")
		})
	}
}

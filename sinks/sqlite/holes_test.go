package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/sinktest"
)

// Somebody removes rows from the middle of a log, of any size, while its history is pruned. The log reports the positions before
// and after the hole until gap records explain it, and has no other hole.
func TestHolesInTheMiddleAreFound(t *testing.T) {
	for range 30 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			x := newHoleTest(t, seed)
			x.write(t, 20+x.IntN(40))
			x.wantHole(t, nil)
			if x.IntN(2) == 0 {
				if _, err := x.file.DB().Exec(`update log_batches set written = written - 3600000 where id <= (select max(id) from log_batches) / 4`); err != nil {
					t.Fatal(err)
				}
				x.write(t, 1)
				must(t, x.sink.Prune(t.Context(), time.Now()))
				x.wantHole(t, nil)
			}
			want := x.remove(t)
			x.wantHole(t, want)
			x.explain(t, want)
			x.write(t, 5)
			x.wantHole(t, nil)
		})
	}
}

type holeTest struct {
	*rand.Rand
	file      *sqlitefile.File
	sink      *sqlite.Sink
	log       sinks.Log
	seq       uint64
	epoch     int64
	positions []uint64 // where the stream is after each batch
}

func newHoleTest(t *testing.T, seed uint64) *holeTest {
	path := filepath.Join(t.TempDir(), "log")
	x := &holeTest{Rand: rand.New(rand.NewPCG(seed, 1)), file: own(t, path), positions: []uint64{10}}
	x.sink = newSink(t, x.file, sqlite.Config{Cluster: sinktest.Name, History: 30 * time.Minute})
	return x
}

// write writes batches of 0 to 3 changes, as the first owner or the last one.
func (x *holeTest) write(t *testing.T, batches int) {
	t.Helper()
	if x.log == nil {
		x.epoch = 1
		opened, err := x.sink.Open(t.Context(), 0, x.epoch, sinks.Durable{})
		must(t, err)
		x.log = opened.Log
		t.Cleanup(func() { opened.Log.Close() })
	}
	for range batches {
		x.seq++
		b := &change.Batch{Epoch: x.epoch, Seq: x.seq}
		version := x.positions[len(x.positions)-1]
		for range x.IntN(4) {
			version++
			b.Changes = append(b.Changes, change.Change{Stream: pods, Op: change.Create, Namespace: "default", Name: fmt.Sprint("n", version), UID: fmt.Sprint("u", version),
				ResourceVersion: change.VersionOf(version), Time: time.Now(), After: []byte(`{}`)})
		}
		version++
		b.Positions = []change.Position{{Stream: pods.ID(), ResourceVersion: change.VersionOf(version), Time: time.Now()}}
		if x.positions = append(x.positions, version); x.IntN(5) == 0 {
			b.Controls = []change.Control{change.ProofControl(pods.ID(), change.VersionOf(version), &change.Proof{})}
		}
		if _, err := x.log.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
}

// remove removes some batches, or changes of one, and returns the positions before and after them.
func (x *holeTest) remove(t *testing.T) []uint64 {
	t.Helper()
	first, n := x.seq/3+uint64(x.IntN(int(x.seq)/3))+1, uint64(1+x.IntN(5))
	var oldest uint64
	must(t, x.file.DB().QueryRow(`select min(seq) from log_batches, log_kept where id > after`).Scan(&oldest))
	if first = max(first, oldest+1); x.IntN(5) == 0 { // nobody knows what was before it
		first = oldest
		x.positions[first-1] = 1
	}
	run := func(query string, args ...any) int64 {
		t.Helper()
		result, err := x.file.DB().Exec(query, args...)
		must(t, err)
		removed, _ := result.RowsAffected()
		return removed
	}
	const changes = `delete from log_changes where id > (select id from log_batches where seq = ?1)
		and id <= (select id + changes from log_batches where seq = ?2)`
	if x.IntN(3) == 0 { // damages one
		for {
			for _, damage := range []string{`update log_changes set time = time + 1000 where id in (select id + 1 from log_batches where seq = ?1 and changes > 0)`,
				`update log_changes set body = zeroblob(length(body)) where id in (select id + 1 from log_batches where seq = ?1 and changes > 0)`,
				`update log_controls set record = replace(record, '"proof"', '"Proof"') where batch in (select id from log_batches where seq = ?1)`,
				`update log_batches set positions = replace(positions, '[[', '[ [') where seq = ?1`}[x.IntN(4):] {
				if run(damage, first) > 0 {
					return []uint64{x.positions[first-1], x.positions[first]}
				}
			}
			first++
		}
	}
	if x.IntN(2) == 0 && run(changes, first, first) > 0 {
		return []uint64{x.positions[first-1], x.positions[first]}
	}
	run(changes, first, first+n-1)
	run(`delete from log_controls where batch in (select id from log_batches where seq >= ? and seq < ?)`, first, first+n)
	run(`delete from log_batches where seq >= ? and seq < ?`, first, first+n)
	return []uint64{x.positions[first-1], x.positions[first+n]}
}

// wantHole demands that a reader and a write with a proof find a hole, or none.
func (x *holeTest) wantHole(t *testing.T, want []uint64) {
	t.Helper()
	r, err := sqlite.NewReader(t.Context(), share(t, x.file.Path()), sinktest.Name)
	must(t, err)
	defer r.Close()
	hole, err := r.Hole(t.Context())
	if err != nil || (hole == nil) != (want == nil) {
		t.Fatalf("the hole is %v, %v, want one at %v", hole, err, want)
	}
	if want == nil {
		return
	}
	records := hole.Records()
	if len(records) != 1 || records[0].Gap.From != change.VersionOf(want[0]) || records[0].Gap.To != change.VersionOf(want[1]) {
		t.Fatalf("the hole is %+v, want %v", records[0].Gap, want)
	}
}

// explain opens the log anew, and writes the records of the hole.
func (x *holeTest) explain(t *testing.T, want []uint64) {
	t.Helper()
	var opened *sinks.Opened
	for opened == nil || opened.Hole == nil && x.epoch < 100 { // each owner checks a part on a busy machine
		var err error
		x.epoch++
		if opened, err = x.sink.Open(t.Context(), 0, x.epoch, sinks.Durable{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { opened.Log.Close() })
	}
	x.log = opened.Log
	if opened.Hole == nil || opened.Lost != nil {
		t.Fatalf("a new owner finds the hole %v and the loss %v, want the hole %v", opened.Hole, opened.Lost, want)
	}
	x.seq++
	x.positions = append(x.positions, x.positions[len(x.positions)-1])
	if _, err := x.log.Write(t.Context(), &change.Batch{Epoch: x.epoch, Seq: x.seq, Controls: opened.Hole.Records()}); err != nil {
		t.Fatal(err)
	}
}

// An index lacks what its table has, which no checksum of a batch shows.
func TestADamagedPageIsAHole(t *testing.T) {
	x := newHoleTest(t, 1)
	x.write(t, 50)
	x.wantHole(t, nil)
	for _, statement := range []string{`pragma writable_schema = on`,
		`create index of_a_test on log_batches (seq)`,
		`update sqlite_schema set rootpage = (select rootpage from sqlite_schema where name = 'log_controls') where name = 'of_a_test'`,
	} {
		if _, err := x.file.DB().Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	r, err := sqlite.NewReader(t.Context(), share(t, x.file.Path()), sinktest.Name)
	must(t, err)
	defer r.Close()
	if hole, err := r.Hole(t.Context()); hole == nil || err != nil {
		t.Errorf("the damage is %v, %v", hole, err)
	}
}

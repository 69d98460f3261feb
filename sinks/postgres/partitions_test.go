package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/postgres"
	"kubecdc/test/require"
	"kubecdc/test/servers"
)

const threeDays = 72 * time.Hour

// era is a log for which the test sets the database's clock, in days after a Monday at noon.
type era struct {
	url    string
	direct string // its URL without a pooler
	log    bytes.Buffer
	mu     sync.Mutex
}

func newEra(t *testing.T, database func(testing.TB) string) *era {
	t.Helper()
	e := &era{url: database(t)}
	u, err := url.Parse(e.url)
	must(t, err)
	u.Host = servers.SharedPostgres(t).Address
	e.direct = u.String()
	return e
}

func (e *era) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.log.Write(p)
}

func (e *era) logged() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.log.String()
}

func (e *era) sink(t *testing.T, cluster string, history time.Duration) *postgres.Sink {
	t.Helper()
	sink, err := postgres.Open(t.Context(), postgres.Config{URL: e.url, Cluster: cluster, ClusterUID: "uid-of-" + cluster, History: history,
		Upkeep: 120 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(e, nil))})
	must(t, err)
	t.Cleanup(func() { sink.Close() })
	return sink
}

// day sets the clock.
func (e *era) day(t *testing.T, n int) {
	t.Helper()
	rows(t, e.direct, fmt.Sprintf(`create or replace function kubecdc_log.clock() returns timestamptz language sql
		as 'select timestamptz ''2026-06-01 12:00:00+00'' + interval ''%d days'''`, n))
}

func (e *era) await(t *testing.T, query string, want ...string) {
	t.Helper()
	servers.Await(t, fmt.Sprintf("%s to give %q", query, want), func() (bool, error) { return slices.Equal(rows(t, e.direct, query), want), nil })
}

func numberedOn(stream *change.Stream, seq int, changes ...change.Change) *change.Batch {
	return &change.Batch{Epoch: 1, Seq: uint64(seq), Changes: changes,
		Positions: []change.Position{{Stream: stream.ID(), ResourceVersion: change.ResourceVersion(fmt.Sprint(seq))}}}
}

func TestPartitionsAreMadeAheadAndDropped(t *testing.T) {
	for name, database := range map[string]func(testing.TB) string{"direct": servers.Database, "behind a pooler": servers.PooledDatabase} {
		t.Run(name, func(t *testing.T) {
			e := newEra(t, database)
			sink := e.sink(t, "prod", threeDays)
			e.day(t, 0)
			log := openLog(t, sink, 1)
			write(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{event(deployments, change.Create, "api", "u0", "1"), event(pods, change.Create, "p-1", "u1", "1")},
				Positions: []change.Position{{Stream: "deployments.apps", ResourceVersion: "77"}},
				Controls:  []change.Control{{Type: change.ControlSnapshotBegin, Stream: "quiet"}, {Type: change.ControlSnapshotBegin, Stream: "pods"}}})
			for i, day := range []int{-1, 1, 5} {
				hash := string("abc"[i])
				schema := sinks.Schema{Path: "apis/apps/v1", Hash: hash, Since: time.Date(2026, 6, 1+day, 0, 0, 0, 0, time.UTC), Document: []byte(hash)}
				must(t, sink.WriteSchema(t.Context(), &schema))
			}
			for seq := 2; seq <= 7; seq++ { // one batch a day
				e.day(t, seq-1)
				write(t, log, numberedOn(pods, seq, event(pods, change.Create, fmt.Sprint("p-", seq), fmt.Sprint("u", seq), fmt.Sprint(seq))))
				e.await(t, `select max(upper) - clock() >= interval '1 day' from partitions`, "t") // partitions were made ahead
			}
			e.await(t, `select parent, count(*), min(name), min(lower) from partitions group by parent order by parent`,
				"batches|5|batches_20260604|2026-06-04 00:00:00+00", "changes|5|changes_20260604|2026-06-04 00:00:00+00",
				"control|5|control_20260604|2026-06-04 00:00:00+00")
			wantRows(t, e.direct, `select string_agg(name, ' ' order by name) from changes`, "p-4 p-5 p-6 p-7")
			wantRows(t, e.direct, `select count(*) from objects`, "8")
			e.await(t, `select string_agg(hash, ' ' order by hash) from schemas`, "b c")
			if !strings.Contains(e.logged(), "partition=kubecdc_log.changes_20260601") {
				t.Errorf("what was dropped is not logged:\n%s", e.logged())
			}
			wantTailAndPast(t, sink)
			wantPastRead(t, e.url)
			wantLast(t, e.url, "p-1 p-2 p-3 p-4 p-5 p-6 p-7")
			rows(t, e.direct, `update objects set time = '2026-06-06 12:00:00+00' where name in ('p-2', 'p-6')`)
			rows(t, e.direct, `delete from changes where name = 'p-6'`)
			wantLast(t, e.url, "p-1 p-3 p-4 p-5 p-7") // p-2 and p-6 were deleted before anything was dropped
		})
	}
}

// wantLast verifies which Pods live, from the changes only.
func wantLast(t *testing.T, url, want string) {
	t.Helper()
	r, err := postgres.OpenReader(t.Context(), postgres.Config{URL: url, Cluster: "prod"})
	must(t, err)
	defer r.Close()
	var names []string
	err = r.Changes(t.Context(), sinks.Query{Each: sinks.Last, Resources: []string{"pods"}}, func(l *sinks.Logged) error {
		if names = append(names, l.Name); len(l.After) == 0 {
			t.Errorf("%s has no state", l.Name)
		}
		return nil
	})
	slices.Sort(names)
	if got := strings.Join(names, " "); err != nil || got != want {
		t.Errorf("by the changes %s live, want %s; %v", got, want, err)
	}
}

// wantPastRead reads a log of which partitions were dropped: the objects that have not changed since, and all retained changes.
func wantPastRead(t *testing.T, url string) {
	t.Helper()
	r, err := postgres.OpenReader(t.Context(), postgres.Config{URL: url, Cluster: "prod"})
	must(t, err)
	defer r.Close()
	parsed := func(text string) time.Time {
		moment, err := time.Parse(time.RFC3339, text)
		must(t, err)
		return moment
	}
	retained, err := r.Retained(t.Context(), nil)
	if since := retained["pods"].Since; err != nil || !since.Equal(parsed("2026-06-04T00:00:00Z")) {
		t.Errorf("the log is retained since %s, %v", since, err)
	}
	if _, err := r.CutAt(t.Context(), parsed("2026-06-02T18:00:00Z")); !errors.Is(err, sinks.ErrNotRetained) {
		t.Errorf("a cut before the history: %v", err)
	}
	cut, err := r.CutAt(t.Context(), parsed("2026-06-05T18:00:00Z"))
	must(t, err)
	for _, tc := range []struct {
		q    sinks.Query
		want string
	}{
		{sinks.Query{}, "api p-1 p-2 p-3 p-4 p-5 p-6 p-7"},
		{sinks.Query{To: &cut, Resources: []string{"pods"}}, "p-1 p-2 p-3 p-4 p-5"},
		{sinks.Query{After: &cut}, "p-6 p-7"},
		{sinks.Query{Namespace: "default", Name: "p-2"}, "p-2"},
		{sinks.Query{After: &cut, Name: "p-6"}, "p-6"},
	} {
		var names []string
		if err := r.Changes(t.Context(), tc.q, func(l *sinks.Logged) error {
			names = append(names, l.Name)
			if l.Namespace != "default" || len(l.After) == 0 {
				t.Errorf("%s is read as %+v", l.Name, l)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != tc.want {
			t.Errorf("%+v: %s, want %s", tc.q, got, tc.want)
		}
	}
	for _, name := range []string{"", "p-6"} {
		q := sinks.Query{After: &sinks.Cut{Batches: map[int]uint64{0: 1}}, Name: name}
		if err := r.Changes(t.Context(), q, func(*sinks.Logged) error { return nil }); !errors.Is(err, sinks.ErrNotRetained) {
			t.Errorf("changes of %q after a batch that is not retained: %v", name, err)
		}
	}
}

// A partition is dropped with the last changes of some objects before a cut. The state at the cut has these objects, as their next change
// found them, or as they still are.
func TestAStateOutlivesItsChanges(t *testing.T) {
	e := newEra(t, servers.Database)
	sink := e.sink(t, "prod", threeDays)
	day := 1
	e.day(t, 0)
	log := openLog(t, sink, 1)
	created := func(name string) change.Change { return event(pods, change.Create, name, "u-"+name, "1") }
	write(t, log, numberedOn(pods, 1, created("a"), created("b"), created("c"), created("d")))
	passTo := func(last int) {
		for ; day <= last; day++ {
			e.day(t, day)
			e.await(t, `select max(upper) - clock() >= interval '1 day' from partitions`, "t")
		}
	}
	passTo(3)
	write(t, log, numberedOn(pods, 2, event(pods, change.Update, "d", "u-d", "2")))
	passTo(5)
	write(t, log, numberedOn(pods, 3, event(pods, change.Update, "b", "u-b", "3"), event(pods, change.Delete, "c", "u-c", "3"), created("n")))
	e.await(t, `select string_agg(distinct batch::text, ' ') from changes`, "2 3")
	r, err := postgres.OpenReader(t.Context(), postgres.Config{URL: e.url, Cluster: "prod"})
	must(t, err)
	defer r.Close()
	cut := &sinks.Cut{Batches: map[int]uint64{0: 2}}
	for _, c := range []struct {
		q    sinks.Query
		want string
	}{
		{sinks.Query{Each: sinks.Last, To: cut}, "a:r::1 b:u:was:3 c:d:was: d:u::2"},
		{sinks.Query{Each: sinks.Last, To: cut, Keys: &sinks.Keys{After: "default/a", UpTo: "default/c"}}, "b:u:was:3 c:d:was:"},
		{sinks.Query{Each: sinks.Last, To: cut, Name: "c"}, "c:d:was:"},
		{sinks.Query{Each: sinks.Rest, After: cut}, "b:u:was:3 c:d:was: n:c::1"},
		{sinks.Query{Keys: &sinks.Keys{}}, "a:r::1 b:u:was:3 c:d:was: d:u:was:2 n:c::1"},
		{sinks.Query{Keys: &sinks.Keys{}, To: cut}, "a:r::1 d:u:was:2"},
	} {
		var got []string
		err := r.Changes(t.Context(), c.q, func(l *sinks.Logged) error {
			before, after := "", ""
			if l.Before != nil {
				before = "was"
			}
			if _, text, found := strings.Cut(string(l.After), `"v":"`); found {
				after = strings.TrimSuffix(text, `"}`)
			}
			got = append(got, strings.Join([]string{l.Name, l.Op.String(), before, after}, ":"))
			return nil
		})
		if text := strings.Join(got, " "); err != nil || text != c.want {
			t.Errorf("%+v: %s, want %s; %v", c.q, text, c.want, err)
		}
	}
}

// The oldest changes are dropped during a read. The reader gets the rest completely, or an error that says that it can't.
func TestChangesAreDroppedWhileTheyAreRead(t *testing.T) {
	const each = 30
	e := newEra(t, servers.Database)
	sink := e.sink(t, "prod", threeDays)
	e.day(t, 0)
	log := openLog(t, sink, 1)
	day := func(n int) {
		e.day(t, n)
		e.await(t, `select max(upper) - clock() >= interval '1 day' from partitions`, "t")
	}
	batchOf := func(seq, n int) {
		day(n)
		var changes []change.Change
		for i := range each {
			changes = append(changes, event(pods, change.Create, fmt.Sprint("p-", n, "-", i), fmt.Sprint("u-", n, "-", i), fmt.Sprint(n*each+i+1)))
		}
		write(t, log, numberedOn(pods, seq, changes...))
		rows(t, e.direct, fmt.Sprintf("update kubecdc_log.batches set changes = 3000 where seq = %d", seq)) // a statement reads one such batch, but not two
	}
	awaitOldest := func(batch int) {
		e.await(t, `select min(seq), min(batch) from batches, changes`, fmt.Sprintf("%d|%d", batch, batch))
	}
	for n := range 7 {
		batchOf(n+1, n)
	}
	awaitOldest(4)
	r, err := postgres.OpenReader(t.Context(), postgres.Config{URL: e.url, Cluster: "prod"})
	must(t, err)
	defer r.Close()
	for _, tc := range []struct {
		name      string
		after     uint64
		follow    bool
		meanwhile func() // after the first batch was read
		read      int    // batches
		refused   bool
	}{
		{"what was read goes", 3, false, func() { day(7); awaitOldest(5) }, 4, false},
		{"what comes next goes", 4, false, func() { day(9); awaitOldest(7) }, 2, true},
		{"what came later goes", 6, true, func() { batchOf(8, 10); batchOf(9, 14); awaitOldest(9) }, 1, true},
	} {
		read, paused := 0, false
		q := sinks.Query{After: &sinks.Cut{Batches: map[int]uint64{0: tc.after}}, Follow: tc.follow, Progress: func(int64, int64) {
			if !paused {
				paused = true
				tc.meanwhile()
			}
		}}
		err := r.Changes(t.Context(), q, func(*sinks.Logged) error { read++; return nil })
		if refused := errors.Is(err, sinks.ErrNotRetained); refused != tc.refused || !refused && (err != nil || read != tc.read*each) {
			t.Errorf("%s: %d changes were read: %v", tc.name, read, err)
		}
	}
}

// wantTailAndPast reads a tail across the end of a partition, and all of a log of which partitions were dropped.
func wantTailAndPast(t *testing.T, sink *postgres.Sink) {
	t.Helper()
	log, recovered := openTail(t, sink, 0, 2, sinks.Durable{Seq: 4})
	var got []string
	for _, r := range recovered {
		for _, c := range r.Batch.Changes {
			got = append(got, fmt.Sprint(r.Batch.Seq, " ", c.Name))
		}
	}
	if want := []string{"5 p-5", "6 p-6", "7 p-7"}; !slices.Equal(got, want) {
		t.Errorf("recovered %v, want %v", got, want)
	}
	write(t, log, &change.Batch{Epoch: 2, Seq: 8})
	log, _ = openTail(t, sink, 0, 3, sinks.Durable{New: true})
	past, err := log.(sinks.Content).State(t.Context(), sinks.Selection{Stream: func(change.StreamID) bool { return true }})
	must(t, err)
	stands := map[string]string{}
	for _, p := range past.Positions {
		stands[string(p.Stream)] = string(p.ResourceVersion)
	}
	if want := map[string]string{"deployments.apps": "77", "pods": "7", "quiet": ""}; !reflect.DeepEqual(stands, want) {
		t.Errorf("positions are %v, want %v", stands, want)
	}
	folded, err := past.Fold(t.Context(), func(*change.Change) error { return nil }, func(sinks.Progress) {})
	if err != nil || folded.Records != 8 || past.Seq != 8 {
		t.Errorf("%d objects, batch %d, error %v; want 8 of both", folded.Records, past.Seq, err)
	}
}

// A slot without an owner has a batch that the checkpoint does not have. Its partitions are not dropped until it was read back.
func TestNoPartitionIsDroppedThatASlotMayReadBack(t *testing.T) {
	e := newEra(t, servers.Database)
	sink := e.sink(t, "prod", threeDays)
	e.day(t, 0)
	orphan, _ := openTail(t, sink, 1, 1, sinks.Durable{})
	b := numberedOn(deployments, 1, event(deployments, change.Create, "api", "u0", "1"))
	b.Slot = 1
	write(t, orphan, b)
	orphan.Close()
	log := openLog(t, sink, 1)
	for seq := 1; seq <= 8; seq++ {
		e.day(t, seq)
		e.await(t, `select max(upper) - clock() >= interval '1 day' from partitions`, "t")
		write(t, log, numberedOn(pods, seq, event(pods, change.Create, "p", "u", fmt.Sprint(seq))))
	}
	const names = `select string_agg(name, ' ' order by lower) from partitions where parent = 'changes' and upper <= clock()`
	e.await(t, names, "changes_20260601 changes_20260606 changes_20260607 changes_20260608")
	orphan, recovered := openTail(t, sink, 1, 2, sinks.Durable{})
	if len(recovered) != 1 || len(recovered[0].Batch.Changes) != 1 {
		t.Fatalf("recovered %v", recovered)
	}
	b = numberedOn(deployments, 2, event(deployments, change.Update, "api", "u0", "2"))
	b.Slot, b.Epoch = 1, 2
	write(t, orphan, b)
	e.await(t, names, "changes_20260606 changes_20260607 changes_20260608")
}

// While a consumer reads for long, nothing is dropped, and no writer waits.
func TestALongReadKeepsAPartitionAndNoWriter(t *testing.T) {
	e := newEra(t, servers.Database)
	sink := e.sink(t, "prod", threeDays)
	e.day(t, 0)
	log := openLog(t, sink, 1)
	write(t, log, numbered(1, 1))
	conn := servers.Connect(t, e.direct)
	read, err := conn.Begin(t.Context())
	if err == nil {
		_, err = read.Exec(t.Context(), `select count(*) from kubecdc_log.batches`)
	}
	must(t, err)
	seq := uint64(1)
	for day := 1; day <= 6; day++ {
		e.day(t, day)
		e.await(t, `select max(upper) - clock() >= interval '1 day' from partitions`, "t")
		seq++
		write(t, log, numbered(1, seq))
	}
	given := strings.Count(e.logged(), "lock timeout")
	pace := time.Tick(50 * time.Millisecond)
	for clock := servers.StartClock(); strings.Count(e.logged(), "lock timeout") < given+2; <-pace {
		ctx, cancel := servers.Patient(t.Context())
		seq++
		_, err := log.Write(ctx, numbered(1, seq))
		cancel()
		if err != nil || clock.Late() {
			t.Fatalf("nothing was given up: %v\n%s", err, e.logged())
		}
	}
	const oldest = `select min(name) from partitions where parent = 'batches'`
	wantRows(t, e.direct, oldest, "batches_20260601")
	must(t, read.Rollback(t.Context()))
	e.await(t, oldest, "batches_20260604")
}

// The default is for ever. If several clusters share the tables, the longest history counts.
func TestTheLongestHistoryOfAllClustersCounts(t *testing.T) {
	e := newEra(t, servers.Database)
	brief, forever := e.sink(t, "brief", threeDays), e.sink(t, "forever", 0)
	e.day(t, 0)
	openLog(t, forever, 1).Close()
	log := openLog(t, brief, 1)
	write(t, log, numbered(1, 1))
	write(t, log, numbered(1, 2))
	const ahead = `select max(upper) - clock() >= interval '1 day' from partitions`
	e.day(t, 400)
	e.await(t, ahead, "t")
	write(t, log, numbered(1, 3))
	write(t, log, numbered(1, 4))
	for _, day := range []int{402, 404} { // everything due is dropped before the second time
		e.day(t, day)
		e.await(t, ahead, "t")
	}
	wantRows(t, e.direct, `select count(*) from changes`, "400")
	openLog(t, e.sink(t, "forever", 200*24*time.Hour), 2).Close()
	e.await(t, `select count(*) from changes`, "200")
}

// If nobody has made partitions ahead, as after a pause or when a clock was set ahead, writing fails once.
func TestThePartitionOfNowIsMadeWhenASlotIsOpened(t *testing.T) {
	e := newEra(t, servers.Database)
	sink, err := postgres.Open(t.Context(), postgres.Config{URL: e.url, Cluster: "prod", ClusterUID: "u"})
	must(t, err)
	defer sink.Close()
	log := openLog(t, sink, 1)
	epoch, seq := int64(1), uint64(0)
	for _, day := range []int{0, 300, 600, 900} {
		e.day(t, day)
		if _, err := log.Write(t.Context(), numbered(epoch, seq+1)); err == nil || !strings.Contains(err.Error(), "opened anew") {
			t.Fatalf("on day %d the error is %v", day, err)
		}
		epoch++
		var recovered []sinks.Recovered
		if log, recovered = openTail(t, sink, 0, epoch, sinks.Durable{Seq: seq}); len(recovered) > 0 {
			t.Fatalf("recovered %v", recovered)
		}
		seq++
		write(t, log, numbered(epoch, seq))
	}
	wantRows(t, e.direct, `select count(*) from changes`, "400")
}

// The primary keys contain the time. So numbers must not be used twice, even if slots was emptied.
func TestNumbersAreNotGivenTwice(t *testing.T) {
	url := servers.Database(t)
	sink := open(t, url, "prod")
	defer sink.Close()
	write(t, openLog(t, sink, 7), numbered(7, 1))
	rows(t, url, `truncate slots`)
	for _, epoch := range []int64{1, 7} {
		_, err := sink.Open(t.Context(), 0, epoch, sinks.Durable{New: true})
		var newer *sinks.NewerEpochError
		if !errors.As(err, &newer) || newer.Epoch != 7 {
			t.Errorf("epoch %d: error is %v", epoch, err)
		}
	}
	if _, err := sink.Open(t.Context(), 0, 8, sinks.Durable{New: true}); err != nil {
		t.Error(err)
	}
}

// An operator detaches a partition to archive it. The error names what to do, and then the log goes on.
func TestADetachedPartitionIsNamed(t *testing.T) {
	t.Parallel()
	e := newEra(t, servers.Database)
	sink := e.sink(t, "prod", threeDays)
	e.day(t, 0)
	log := openLog(t, sink, 1)
	write(t, log, numberedOn(pods, 1, event(pods, change.Create, "p-1", "u1", "1")))
	rows(t, e.direct, `alter table changes detach partition changes_20260601`)
	_, err := sink.Open(t.Context(), 0, 2, sinks.Durable{})
	if err == nil || !strings.Contains(err.Error(), "attach it again, or rename it") {
		t.Errorf("Open = %v", err)
	}
	rows(t, e.direct, `alter table changes_20260601 rename to archived`)
	again, err := sink.Open(t.Context(), 0, 3, sinks.Durable{})
	must(t, err)
	again.Log.Close()
}

var must = require.NoError

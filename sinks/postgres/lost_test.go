package postgres_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/postgres"
	"kubecdc/test/servers"
	"kubecdc/test/sinktest"
)

func numbered(epoch int64, seq uint64) *change.Batch {
	b := &change.Batch{Epoch: epoch, Seq: seq, Positions: []change.Position{{Stream: "pods", ResourceVersion: change.VersionOf(seq)}}}
	for i := range 100 {
		b.Changes = append(b.Changes, event(pods, change.Update, fmt.Sprint(i), "u", fmt.Sprint(int(seq)*1000+i)))
	}
	return b
}

// seqs returns the numbers of the recovered batches, each of which must be complete.
func seqs(t *testing.T, recovered []sinks.Recovered) (all []uint64) {
	t.Helper()
	for _, r := range recovered {
		if len(r.Batch.Changes) != 100 || r.Batch.Positions[0].ResourceVersion != change.VersionOf(r.Batch.Seq) {
			t.Errorf("batch %d has %d changes, positions %v", r.Batch.Seq, len(r.Batch.Changes), r.Batch.Positions)
		}
		all = append(all, r.Batch.Seq)
	}
	return all
}

func TestATailThatIsNotThereIsSaidToBeLost(t *testing.T) {
	for _, test := range []struct {
		damage string
		from   uint64
		want   string // the batches that can be recovered
		reason string
	}{
		{"truncate changes", 1, "[]", "batch 2 has 0 of its 100 changes"},
		{"truncate changes", 3, "[]", "batch 1 of slot 0 has 0 of its 100 changes"},
		{"delete from changes where batch = 3 and n = 50", 1, "[2]", "batch 3 has 99 of its 100 changes"},
		{"delete from batches where seq = 2", 1, "[]", "batch 2 is missing"},
		{"delete from batches where seq = 3", 1, "[2]", "batch 3 is missing"},
		{"truncate slots, batches, changes", 3, "[]", "it ends at batch 0, but the checkpoint is at batch 3"},
		{"update slots set seq = 2", 3, "[]", "it ends at batch 2, but the checkpoint is at batch 3"},
	} {
		t.Run(fmt.Sprint(test.damage, " from ", test.from), func(t *testing.T) {
			url := servers.Database(t)
			sink := open(t, url, "prod")
			defer sink.Close()
			log := openLog(t, sink, 1)
			for seq := uint64(1); seq <= 3; seq++ {
				write(t, log, numbered(1, seq))
			}
			rows(t, url, test.damage)
			from := sinks.Durable{Seq: test.from}
			for epoch := int64(2); epoch <= 3; epoch++ { // the loss is reported until something is written
				opened, err := sink.Open(t.Context(), 0, epoch, from)
				must(t, err)
				recovered, lost, err := sinktest.Tail(t.Context(), opened)
				wantLost(t, lost, err, test.reason)
				log = opened.Log
				if got := fmt.Sprint(seqs(t, recovered)); test.want != "" && got != test.want {
					t.Fatalf("recovered %s, not %s", got, test.want)
				}
			}
			write(t, log, numbered(3, from.Seq+1))
			write(t, log, numbered(3, from.Seq+2))
			opened, err := sink.Open(t.Context(), 0, 4, from)
			must(t, err)
			recovered, _, err := sinktest.Tail(t.Context(), opened) // a loss in the first batches is reported until there is a gap record
			must(t, err)
			if got := seqs(t, recovered); len(got) != 2 || recovered[0].Batch.Epoch != 3 {
				t.Fatalf("recovered %v", got)
			}
		})
	}
}

// A failover to a standby that was behind loses the log's end while its owner is between two batches. That owner can't write any
// more. The next owner gets the loss reported, even if its rebuild of the checkpoint was interrupted.
func TestALogThatLosesItsEndTakesNoNextBatch(t *testing.T) {
	url := servers.Database(t)
	sink := open(t, url, "prod")
	defer sink.Close()
	log := openLog(t, sink, 1)
	for seq := uint64(1); seq <= 3; seq++ {
		write(t, log, numbered(1, seq))
	}
	rows(t, url, `delete from changes where batch = 3; delete from batches where seq = 3; update slots set seq = 2`)
	if _, err := log.Write(t.Context(), numbered(1, 4)); err == nil || !strings.Contains(err.Error(), "a standby that was behind") {
		t.Fatalf("error is %v", err)
	}
	for epoch, isNew := range []bool{false, true} {
		opened, err := sink.Open(t.Context(), 0, int64(2+epoch), sinks.Durable{Seq: 3, New: isNew})
		must(t, err)
		wantLost(t, opened.Lost, nil, "it ends at batch 2, but the checkpoint is at batch 3")
		log = opened.Log
	}
	write(t, log, numbered(3, 4))
	write(t, log, numbered(3, 5))
}

func wantLost(t *testing.T, lost *sinks.LostTailError, err error, reason string) {
	t.Helper()
	if err != nil || (lost == nil) != (reason == "") || lost != nil && !strings.Contains(lost.Reason, reason) {
		t.Fatalf("lost %v, error %v; want %q", lost, err, reason)
	}
}

// An owner that stops, or loses its network, while it sends a batch must not keep the next one out.
func TestABatchThatIsStuckOnItsWayHoldsNoLock(t *testing.T) {
	proxy, err := servers.NewProxy(servers.SharedPostgres(t).Address)
	must(t, err)
	defer proxy.Close()
	database := servers.Database(t)
	u, err := url.Parse(database)
	must(t, err)
	u.Host = proxy.Address
	old := open(t, u.String(), "prod")
	defer old.Close()
	log := openLog(t, old, 1)
	big := numbered(1, 1)
	for i := range big.Changes {
		big.Changes[i].After = []byte(`"` + strings.Repeat("x", 20000) + `"`)
	}
	proxy.Slow(10_000) // takes minutes
	done := make(chan error, 1)
	go func() {
		_, err := log.Write(t.Context(), big)
		done <- err
	}()
	next := open(t, database, "prod")
	defer next.Close()
	ctx, cancel := servers.Patient(t.Context())
	defer cancel()
	for epoch := int64(2); epoch < 100; epoch++ { // while more and more of the first owner's batch arrives
		if _, err := next.Open(ctx, 0, epoch, sinks.Durable{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(done) > 0 {
		t.Fatalf("the write was not stuck: %v", <-done)
	}
	must(t, proxy.Restore())
	if err := <-done; !errors.Is(err, sinks.ErrInvalidWriter) {
		t.Fatalf("error is %v", err)
	}
}

func TestKillOfTheServerKeepsAllOfABatchOrNothing(t *testing.T) {
	servers.Need(t)
	server, err := servers.StartPostgres(t.Context(), servers.PostgresOptions{})
	must(t, err)
	defer server.Stop()
	sink := open(t, server.URL, "prod")
	defer sink.Close()
	var from sinks.Durable
	for epoch := int64(1); epoch <= 4; epoch++ {
		log, _ := openTail(t, sink, 0, epoch, from)
		known := killWhileWriting(t, server, log, epoch, from.Seq)
		must(t, server.Start(t.Context()))
		from.Seq = wantAllOrNothing(t, server.URL, sink, from.Seq, known)
	}
}

// killWhileWriting returns the last batch whose write was acknowledged.
func killWhileWriting(t *testing.T, server *servers.Postgres, log sinks.Log, epoch int64, seq uint64) uint64 {
	t.Helper()
	started, failed := make(chan struct{}), make(chan error, 1)
	first := seq + 3
	go func() {
		for {
			if _, err := log.Write(t.Context(), numbered(epoch, seq+1)); err != nil {
				failed <- err
				return
			}
			if seq++; seq == first {
				close(started)
			}
		}
	}()
	<-started
	time.Sleep(time.Duration(epoch) * 500 * time.Microsecond) // determines where in the write the kill happens
	server.Kill()
	<-failed
	return seq
}

func wantAllOrNothing(t *testing.T, url string, sink *postgres.Sink, from, known uint64) (last uint64) {
	t.Helper()
	if _, recovered := openTail(t, sink, 1, int64(known), sinks.Durable{}); len(recovered) > 0 { // any slot will do: this connects again
		t.Fatalf("%d batches", len(recovered))
	}
	wantRows(t, url, `select count(*) from batches b where (select count(*) from changes c where c.slot = b.slot and c.batch = b.seq) <> 100`, "0")
	if _, err := fmt.Sscan(rows(t, url, `select max(seq) from batches`)[0], &last); err != nil {
		t.Fatal(err)
	}
	if last != known && last != known+1 {
		t.Fatalf("the log is at batch %d; %d were acknowledged, and one more was on its way", last, known)
	}
	wantRows(t, url, `select min((resource_version::int) / 1000) || ' ' || count(*) from objects`, fmt.Sprint(last, " 100"))
	return last
}

// If a rebuild loses its connection while it reads the objects, the error names the server, and what was read there.
func TestAReadOfTheObjectsThatBreaksOffSaysWhatItWas(t *testing.T) {
	proxy, err := servers.NewProxy(servers.SharedPostgres(t).Address)
	must(t, err)
	defer proxy.Close()
	u, err := url.Parse(servers.Database(t))
	must(t, err)
	u.Host = proxy.Address
	sink := open(t, u.String(), "prod")
	defer sink.Close()
	log := openLog(t, sink, 1)
	b := numberedOn(pods, 1)
	for i := range 100 {
		c := event(pods, change.Create, fmt.Sprint("p-", i), fmt.Sprint("u-", i), "1")
		c.After = []byte(`"` + strings.Repeat("x", 20000) + `"`)
		b.Changes = append(b.Changes, c)
	}
	write(t, log, b)
	state, err := log.(sinks.Content).State(t.Context(), sinks.Selection{Stream: func(change.StreamID) bool { return true }, Bodies: true})
	must(t, err)
	proxy.CutAfter(1 << 20)
	_, err = state.Fold(t.Context(), func(*change.Change) error { return nil }, func(sinks.Progress) {})
	if err == nil || !strings.Contains(err.Error(), "read the objects in postgres://") {
		t.Errorf("error is %v", err)
	}
}

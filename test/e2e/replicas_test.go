package e2e

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/test/servers"
)

// leases reads from the checkpoint who holds the slots.
type leases struct {
	t    testing.TB
	conn *pgx.Conn
}

func readLeases(t testing.TB, w *World) *leases {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), w.Postgres.URL)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return &leases{t, conn}
}

// held returns how many slots each process holds, and how often slots have moved so far.
func (l *leases) held() (byPID map[string]int, epochs int64) {
	l.t.Helper()
	rows, err := l.conn.Query(context.Background(), `select split_part(owner, '/', 2), epoch, lease_until > clock_timestamp() from kubecdc.slots`)
	must(l.t, err)
	defer rows.Close()
	byPID = map[string]int{}
	for rows.Next() {
		var pid string
		var epoch int64
		var live bool
		must(l.t, rows.Scan(&pid, &epoch, &live))
		epochs += epoch
		if live {
			byPID[pid]++
		}
	}
	must(l.t, rows.Err())
	return byPID, epochs
}

// await waits until exactly these processes hold these numbers of slots, and returns how long that took on a Clock.
func (l *leases) await(limit time.Duration, each int, replicas ...*Exporter) time.Duration {
	l.t.Helper()
	clock := servers.StartClock()
	Await(l.t, limit, fmt.Sprintf("%d slots in each of %d replicas", each, len(replicas)), func() (bool, error) {
		held, _ := l.held()
		for _, r := range replicas {
			if held[fmt.Sprint(r.cmd.Process.Pid)] != each {
				return false, nil
			}
		}
		return len(held) == len(replicas), nil
	})
	return clock.Passed()
}

func TestReplicasShareTheSlotsAndTakeOverFromTheDead(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, servers.KafkaOptions{})
	InstallWidgets(t, w.Kube.Config)
	const lease = 2 * time.Second
	env := w.With("KUBECDC_SLOTS", "6", "KUBECDC_LEASE_DURATION", lease.String())
	writer, slots := w.Writer(t, Kinds), readLeases(t, w)
	writer.Fill(20)
	first := StartExporter(t, "the first", env)
	first.AwaitReady(t) // the checkpoint's tables are there
	second, third := StartExporter(t, "the second", env), StartExporter(t, "the third", env)
	t.Logf("spread over 3 replicas after %s", slots.await(30*time.Second, 2, first, second, third))
	for _, e := range []*Exporter{first, second, third} {
		e.AwaitReady(t)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { writer.Until(stop, 100); close(done) }()

	awaitMade(t, writer, writer.Made.Load()+200)
	third.Kill()
	took := slots.await(30*time.Second, 3, first, second)
	t.Logf("taken over %s after kill -9, with leases of %s", took, lease)
	if took > 3*lease {
		t.Errorf("the dead replica's slots were taken over after %s, later than 3 leases", took)
	}

	before := handedOver(first) + handedOver(second)
	proxied := with(env, "KUBECDC_KAFKA_BROKERS", strings.Join(w.Kafka.ProxiedBrokers, ","))
	fourth := StartExporter(t, "the fourth", proxied)
	t.Logf("a third of the slots handed over to a new replica after %s", slots.await(30*time.Second, 2, first, second, fourth))
	if n := handedOver(first) + handedOver(second) - before; n != 2 {
		t.Errorf("%d slots were handed over, not 2", n)
	}
	awaitMade(t, writer, writer.Made.Load()+200)

	first.Signal(syscall.SIGSTOP)
	took = slots.await(30*time.Second, 3, second, fourth)
	t.Logf("taken over %s after SIGSTOP", took)
	awaitMade(t, writer, writer.Made.Load()+100)
	first.Signal(syscall.SIGCONT)
	if code := first.Wait(t, 20*time.Second); code != 3 || !strings.Contains(first.Tail(1000), "fenced") {
		t.Errorf("the replica that was overtaken exits with %d:\n%s", code, first.Tail(1000))
	}

	cutOffFromKafka(t, w, proxied, slots, lease, fourth, second)
	kafkaAwayForAll(t, w, slots, lease, fourth, second)
	awaitMade(t, writer, writer.Made.Load()+100)

	second.Signal(syscall.SIGTERM)
	took = slots.await(30*time.Second, 6, fourth)
	t.Logf("taken over %s after SIGTERM", took)
	if code := second.Wait(t, 25*time.Second); code != 0 {
		t.Errorf("after SIGTERM the exit code is %d", code)
	}
	awaitMade(t, writer, writer.Made.Load()+100)
	close(stop)
	<-done
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
}

// cutOffFromKafka: of two replicas one loses the broker, by its own proxy. It says so, gives its slots back, and has its
// share again when the broker answers it again. One that is cut off when it starts disturbs nobody.
func cutOffFromKafka(t *testing.T, w *World, proxied map[string]string, slots *leases, lease time.Duration, cut, other *Exporter) {
	t.Helper()
	w.Kafka.Proxy.Freeze()
	frozen := servers.StartClock()
	Await(t, 30*time.Second, "/readyz to name the sink", func() (bool, error) {
		return !cut.Ready() && strings.Contains(cut.Wrong(), "sink: no answer since"), nil
	})
	named := frozen.Passed()
	late := StartExporter(t, "one that is cut off from the start", proxied)
	took := slots.await(30*time.Second, 6, other) + named
	t.Logf("cut off from Kafka: said after %s, taken over after %s: %s", named, took, cut.Wrong())
	if named > 3*lease || took > 7*lease {
		t.Errorf("a replica without Kafka said so after %s, and was without slots after %s", named, took)
	}
	cut.wantLogged(t, "stepping down: the slots are released to the other replicas")
	if wrong := late.Wrong(); late.Ready() || !strings.Contains(wrong, "the sink to say which log it is") {
		t.Errorf("what is cut off from the start says: %s", wrong)
	}
	late.Kill()
	before := handedOver(other)
	must(t, w.Kafka.Proxy.Restore())
	t.Logf("its share is back after %s", slots.await(30*time.Second, 3, cut, other))
	cut.AwaitReady(t)
	if n := handedOver(other) - before; n != 3 {
		t.Errorf("%d slots were handed over, not 3", n)
	}
}

// handedOver counts what a replica gave to another. An epoch may be newer without that: where a session begins anew.
func handedOver(e *Exporter) int {
	return strings.Count(string(e.log.Bytes()), "handing a slot over to another replica")
}

// kafkaAwayForAll: where no replica has Kafka, no slot changes hands, for however long.
func kafkaAwayForAll(t *testing.T, w *World, slots *leases, lease time.Duration, replicas ...*Exporter) {
	t.Helper()
	_, before := slots.held()
	must(t, w.Kafka.Pause())
	away := time.After(4 * lease)
	for _, e := range replicas {
		Await(t, 30*time.Second, "/readyz to name the sink", func() (bool, error) {
			return !e.Ready() && strings.Contains(e.Wrong(), "sink: no answer since"), nil
		})
	}
	<-away
	must(t, w.Kafka.Resume())
	for _, e := range replicas {
		e.AwaitReady(t)
	}
	if held, after := slots.held(); after != before || len(held) != len(replicas) {
		t.Errorf("slots changed hands %d times while nobody had Kafka: %v", after-before, held)
	}
}

// With more replicas than slots: who holds none stands by, is ready, and takes over.
func TestAReplicaThatStandsByTakesOver(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, servers.KafkaOptions{})
	InstallWidgets(t, w.Kube.Config)
	writer := w.Writer(t, Kinds)
	first := StartExporter(t, "the first", w.Env)
	first.AwaitReady(t)
	second := StartExporter(t, "the second", w.Env)
	second.AwaitReady(t)
	if log := second.Tail(3000); strings.Contains(log, "slot acquired") {
		t.Errorf("two replicas hold one slot:\n%s", log)
	}
	writer.Run(200)
	first.Kill()
	killed := servers.StartClock()
	Await(t, 20*time.Second, "the second to take over", func() (bool, error) {
		return strings.Contains(second.Tail(3000), "slot acquired"), nil
	})
	took := killed.Passed()
	t.Logf("taken over %s after kill -9, with leases of %s", took, w.Env["KUBECDC_LEASE_DURATION"])
	if took > 6*time.Second {
		t.Error("that is more than 3 leases")
	}
	writer.Run(200)
	third := StartExporter(t, "the third", w.Env)
	third.AwaitReady(t)
	second.Signal(syscall.SIGSTOP)
	Await(t, 20*time.Second, "the third to take over", func() (bool, error) {
		return strings.Contains(third.Tail(3000), "slot acquired"), nil
	})
	writer.Run(100)
	second.Signal(syscall.SIGCONT)
	if code := second.Wait(t, 20*time.Second); code != 3 {
		t.Errorf("the replica that was overtaken exits with %d:\n%s", code, second.Tail(1000))
	}
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
}

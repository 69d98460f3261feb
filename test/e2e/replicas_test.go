package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/test/servers"
)

// leases reads the owners of the slots from the checkpoint.
type leases struct {
	t    testing.TB
	conn *pgx.Conn
}

func readLeases(t testing.TB, w *World) *leases {
	t.Helper()
	return &leases{t, servers.Connect(t, w.Postgres.URL)}
}

// held returns how many slots each process holds.
func (l *leases) held() (byPID map[string]int) {
	l.t.Helper()
	rows, err := l.conn.Query(context.Background(), `select split_part(owner, '/', 2), count(*) from kubecdc.slots
		where lease_until > clock_timestamp() group by 1`)
	must(l.t, err)
	defer rows.Close()
	byPID = map[string]int{}
	for rows.Next() {
		var pid string
		var n int
		must(l.t, rows.Scan(&pid, &n))
		byPID[pid] = n
	}
	must(l.t, rows.Err())
	return byPID
}

// await waits until exactly these replicas hold these numbers of slots. The test's log has the time that it took.
func (l *leases) await(after string, each int, replicas ...*Exporter) {
	l.t.Helper()
	began := time.Now()
	Await(l.t, fmt.Sprintf("%d slots in each of %d replicas after %s", each, len(replicas), after), func() (bool, error) {
		held := l.held()
		for _, r := range replicas {
			if err := r.restartIfOvertaken(); err != nil {
				return false, err
			}
			if held[fmt.Sprint(r.Cmd.Process.Pid)] != each {
				return false, nil
			}
		}
		return len(held) == len(replicas), nil
	})
	l.t.Logf("%s: %d slots in each of %d replicas after %s, with leases of %s", after, each, len(replicas), time.Since(began), lease)
}

func TestReplicasShareTheSlotsAndTakeOverFromTheDead(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	InstallWidgets(t, w.Kube.Config)
	lane, ownLane := w.Kafka.Lane(t), w.Kafka.Lane(t)
	env := w.With("KUBECDC_SLOTS", "6", "KUBECDC_KAFKA_BROKERS", lane.Address)
	writer, slots := w.Writer(t, Kinds), readLeases(t, w)
	writer.Fill(20)
	first := StartExporter(t, "the first", ownSpool(t, env))
	first.AwaitReady(t) // the checkpoint's tables are there
	second, third := StartExporter(t, "the second", ownSpool(t, env)), StartExporter(t, "the third", ownSpool(t, env))
	slots.await("the start", 2, first, second, third)
	for _, e := range []*Exporter{first, second, third} {
		e.AwaitReady(t)
	}
	stop := writer.Start(25)

	awaitMade(t, writer, writer.Made.Load()+60)
	third.Kill()
	slots.await("kill -9", 3, first, second)

	env["KUBECDC_KAFKA_BROKERS"] = ownLane.Address
	fourth := StartExporter(t, "the fourth", ownSpool(t, env))
	slots.await("a new replica", 2, first, second, fourth)
	awaitMade(t, writer, writer.Made.Load()+60)

	first.Signal(syscall.SIGSTOP)
	slots.await("SIGSTOP", 3, second, fourth)
	awaitMade(t, writer, writer.Made.Load()+40)
	first.wakeOvertaken(t)

	cutOffFromKafka(t, ownLane, env, slots, fourth, second)
	kafkaAwayForAll(t, slots, []*servers.Proxy{lane, ownLane}, fourth, second)
	awaitMade(t, writer, writer.Made.Load()+40)

	second.stop(t)
	slots.await("SIGTERM", 6, fourth)
	awaitMade(t, writer, writer.Made.Load()+40)
	stop()
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
}

// wakeOvertaken wakes a replica whose slots others have taken over meanwhile. Either it is fenced and ends with code 3. Or it finds
// before a write that its lease is over, and starts again without the slots. It is then killed.
func (e *Exporter) wakeOvertaken(t *testing.T) {
	t.Helper()
	e.Signal(syscall.SIGCONT)
	without := func() bool {
		var report struct{ Slots struct{ OK int } }
		text, err := e.get("/readyz")
		return err == nil && json.Unmarshal([]byte(text), &report) == nil && report.Slots.OK == 0
	}
	standby := false
	Await(t, e.name+" to find out that it was overtaken", func() (bool, error) {
		standby = without()
		return standby || !e.Running(), nil
	})
	if standby {
		e.Kill()
		return
	}
	if code := e.Wait(t); code != 3 || !strings.Contains(e.Tail(1000), "fenced") {
		t.Errorf("the replica that was overtaken exits with %d:\n%s", code, e.Tail(1000))
	}
}

// cutOffFromKafka cuts off one of two replicas from the broker, by its own proxy. The replica says so, releases its slots, and has
// its share again when the broker answers again. A replica that is cut off when it starts disturbs nobody.
func cutOffFromKafka(t *testing.T, lane *servers.Proxy, env map[string]string, slots *leases, cut, other *Exporter) {
	t.Helper()
	lane.Freeze()
	cut.awaitWrong(t, "sink: no answer since")
	late := StartExporter(t, "one that is cut off from the start", ownSpool(t, env))
	slots.await("one has lost Kafka", 6, other)
	cut.awaitLogged(t, "stepping down: the slots are released to the other replicas")
	late.awaitWrong(t, "the sink to say which log it is")
	late.Kill()
	must(t, lane.Restore())
	slots.await("it has Kafka again", 3, cut, other)
	cut.AwaitReady(t)
}

// kafkaAwayForAll demands that no replica releases its slots while Kafka is away for all of them.
func kafkaAwayForAll(t *testing.T, slots *leases, lanes []*servers.Proxy, replicas ...*Exporter) {
	t.Helper()
	for _, lane := range lanes {
		lane.Freeze()
	}
	awayForAll(t, slots, "sink: no answer since", func() {
		for _, lane := range lanes {
			must(t, lane.Restore())
		}
	}, replicas...)
}

func awayForAll(t *testing.T, slots *leases, why string, mend func(), replicas ...*Exporter) {
	t.Helper()
	stepped, away := steppedDown(replicas), time.After(4*lease)
	for _, e := range replicas {
		e.awaitWrong(t, why)
	}
	<-away
	if n := steppedDown(replicas) - stepped; n > 0 {
		t.Errorf("%d times a replica stepped down while no other one was better off", n)
	}
	mend()
	for _, e := range replicas {
		e.AwaitReady(t)
	}
	slots.await("all have it again", 6/len(replicas), replicas...)
}

func steppedDown(replicas []*Exporter) (times int) {
	for _, e := range replicas {
		times += strings.Count(e.Tail(1<<20), "stepping down")
	}
	return times
}

// With more replicas than slots, a replica without slots is ready, and takes over.
func TestSlowAReplicaThatStandsByTakesOver(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t)
	writer := w.Writer(t, Kinds)
	first := StartExporter(t, "the first", w.Env).AwaitReady(t)
	second := StartExporter(t, "the second", w.Env).AwaitReady(t)
	writer.Run(50)
	first.Kill()
	second.awaitLogged(t, "slot acquired")
	writer.Run(50)
	third := StartExporter(t, "the third", w.Env).AwaitReady(t)
	second.Signal(syscall.SIGSTOP)
	third.awaitLogged(t, "slot acquired")
	writer.Run(50)
	second.wakeOvertaken(t)
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
}

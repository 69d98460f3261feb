package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"kubecdc/internal/failpoint"
	"kubecdc/test/servers"
)

const txnTimeout = time.Second

// At each step of a batch the process is suspended, and then Kafka is out of reach, until the broker has ended the transaction. No
// other process takes over the slot, so the outage costs only a delay.
func TestSlowOutagesLongerThanTheTransactionTimeout(t *testing.T) {
	servers.Slow(t)
	for _, protocol := range []string{"1", "2"} {
		t.Run("protocol "+protocol, func(t *testing.T) {
			t.Parallel()
			outages(t, NewWorld(t), "KUBECDC_KAFKA_TRANSACTION_PROTOCOL", protocol)
		})
	}
}

func outages(t *testing.T, w *World, settings ...string) {
	InstallWidgets(t, w.Kube.Config)
	steps := []string{failpoint.Collected, failpoint.TxnAdded, failpoint.DataProduced, failpoint.ControlWritten, failpoint.Written, failpoint.Committed}
	var points []string
	for _, step := range steps {
		points = append(points, step+":3:stop", step+":3:stop")
	}
	points = append(points, failpoint.DataProduced+":3:stop") // to suspend the other replica
	writer, kafka := w.Writer(t, Kinds), w.Kafka.Lane(t)
	env := w.With(append(settings, "KUBECDC_KAFKA_BROKERS", kafka.Address, "KUBECDC_KAFKA_TRANSACTION_TIMEOUT", txnTimeout.String())...)
	first := StartExporter(t, "the first", withSettings(env, "KUBECDC_FAILPOINT", strings.Join(points, ",")))
	stop := writer.Start(30)
	for i, step := range steps {
		first.awaitSuspended(t, step)
		awaitNoTransaction(t, w)
		first.Signal(syscall.SIGCONT)

		first.awaitSuspended(t, step)
		kafka.Cut()
		if i%2 == 1 {
			must(t, kafka.Restore())
			kafka.Freeze()
		}
		first.Signal(syscall.SIGCONT)
		awaitNoTransaction(t, w)
		must(t, kafka.Restore())
	}
	first.awaitSuspended(t, "the last step")
	first.awaitLogged(t, "starting the next one from what is durable", "KUBECDC_KAFKA_TRANSACTION_TIMEOUT", "no other process has taken over slot 0")

	StartExporter(t, "the second", env).AwaitReady(t)
	first.wakeOvertaken(t)
	stop()
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
}

// With protocol 2 of Kafka's transactions a process is killed at each step of a batch and of a takeover. A process that uses
// protocol 1 follows the last one. Nothing is lost or repeated.
func TestSlowKilledAtEachStepByProtocol2(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t)
	writer := w.Writer(t, Kinds).Fill(20)
	env := w.With("KUBECDC_KAFKA_TRANSACTION_PROTOCOL", "2")
	first := StartExporter(t, "the first", env).AwaitReady(t)
	first.awaitLogged(t, "all brokers make them by protocol 2")
	first.Kill()
	stop := writer.Start(30)
	for _, step := range []string{failpoint.Received, failpoint.Collected, failpoint.Prepared, failpoint.TxnAdded, failpoint.DataProduced,
		failpoint.ControlWritten, failpoint.Written, failpoint.RollingForward, failpoint.Committed} {
		killedAt(t, env, step+":1")
	}
	StartExporter(t, "the last", w.Env).AwaitReady(t)
	awaitMade(t, writer, writer.Made.Load()+50)
	stop()
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
}

// Each server is away for more than ten times the lease and the transaction timeout, cut off or silent. The process then goes on
// undisturbed.
func TestServersAwayForLong(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	InstallWidgets(t, w.Kube.Config)
	proxies, env := w.Proxied(t)
	for key, value := range map[string]string{"KUBECDC_KAFKA_TRANSACTION_TIMEOUT": txnTimeout.String(), "KUBECDC_LEASE_DURATION": "1s"} {
		env = withSettings(env, key, value)
	}
	startBeforeServers(t, w, proxies["kafka"], env)
	writer := w.Writer(t, Kinds)
	e := StartExporter(t, "an exporter", env).AwaitReady(t)
	for i, name := range []string{"kafka", "postgres", "api"} {
		writer.Run(30)
		if i%2 == 0 {
			proxies[name].Cut()
		} else {
			proxies[name].Freeze()
		}
		mend := time.After(11 * txnTimeout)
		writer.Run(100)
		<-mend
		must(t, proxies[name].Restore())
		restored := time.Now()
		w.AwaitComplete(t, writer, Kinds)
		t.Logf("complete %s after %s was back", time.Since(restored).Round(time.Millisecond), name)
	}
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
	e.stop(t)
}

// startBeforeServers starts an exporter while none of its servers runs, and then the servers, one after another. The exporter says
// what it waits for, goes on by itself, and ends at once if it gets SIGTERM while it waits.
func startBeforeServers(t *testing.T, w *World, kafka *servers.Proxy, env map[string]string) {
	t.Helper()
	w.Kube.KillAPIServer()
	w.Postgres.Kill()
	kafka.Cut()
	env = withSettings(withSettings(env, "KUBECONFIG", w.Kube.Kubeconfig), "KUBECDC_CHECKPOINT", w.Postgres.URL)
	env = withSettings(withSettings(env, "KUBECDC_KAFKA_TOPIC_PREFIX", servers.UniqueName()), "KUBECDC_CLUSTER", "early")
	delete(env, "KUBECDC_KAFKA_TRANSACTION_TIMEOUT") // a busy machine may take longer for the batch that SIGTERM waits for
	e, stopped := StartExporter(t, "started before its servers", env), StartExporter(t, "stopped before its servers are there", env)
	for _, outage := range []struct {
		waits string
		start func() error
	}{
		{"the API server to say which cluster it is (" + w.Kube.Address, func() error { return w.Kube.StartAPIServer(context.Background()) }},
		{"the checkpoint (postgres://", func() error { return w.Postgres.Start(context.Background()) }},
		{"the sink to say which log it is (kafka ", kafka.Restore},
	} {
		Await(t, "/readyz to name what is waited for: "+outage.waits, func() (bool, error) {
			says := "start: waiting for " + outage.waits
			return strings.Contains(e.Wrong(), says) && (stopped == nil || strings.Contains(stopped.Wrong(), says)), nil
		})
		if stopped != nil {
			stopped.stop(t)
			stopped = nil
		}
		must(t, outage.start())
	}
	e.AwaitReady(t)
	e.stop(t)
}

// awaitSuspended waits until the process has suspended itself.
func (e *Exporter) awaitSuspended(t testing.TB, step string) {
	t.Helper()
	Await(t, "the process to suspend itself at "+step, func() (bool, error) {
		if err := e.ended(); err != nil {
			return false, err
		}
		return e.suspended(), nil
	})
}

// suspended reports whether the process is stopped (state T in /proc).
func (e *Exporter) suspended() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", e.Cmd.Process.Pid))
	_, state, ok := strings.Cut(string(stat), ") ")
	return err == nil && ok && strings.HasPrefix(state, "T")
}

// awaitNoTransaction waits until the broker has ended all transactions of the world's exporters. It always waits for longer than
// their timeout.
func awaitNoTransaction(t *testing.T, w *World) {
	t.Helper()
	a, began := admin(t, w), time.Now()
	Await(t, "the broker to end the transactions", func() (bool, error) {
		open, err := a.ListTransactions(context.Background(), nil, []string{"Ongoing", "PrepareAbort", "PrepareCommit"})
		for id := range open {
			if strings.HasPrefix(id, w.Prefix+"-") {
				return false, err
			}
		}
		return time.Since(began) > txnTimeout, err
	})
}

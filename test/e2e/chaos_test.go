package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"strconv"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/test/servers"
)

// chaosFaults returns the number of faults of a run: KUBECDC_CHAOS_FAULTS, or the short form of make test.
func chaosFaults(t *testing.T, short int) int {
	if n, err := strconv.Atoi(os.Getenv("KUBECDC_CHAOS_FAULTS")); err == nil {
		return n
	}
	return short
}

func chaosSeed(t *testing.T) uint64 {
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("KUBECDC_CHAOS_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("KUBECDC_CHAOS_SEED=%d", seed)
	return seed
}

// runChaos makes random faults, and then kills a process at each of the steps at which none has died.
func runChaos(t *testing.T, w *World, faults int, steps []string, settings ...string) (*Chaos, *Verdict) {
	w.Env = w.With("KUBECDC_PROOF_INTERVAL", "2s")
	InstallWidgets(t, w.Kube.Config)
	seed := chaosSeed(t)
	writer := NewWriter(t, w.Kube.Config, seed, Kinds)
	writer.Run(40)
	c := NewChaos(t, w, seed, settings...)
	Await(t, "a replica to be ready", func() (bool, error) {
		return c.replicas[0].exporter().Ready() || c.replicas[1].exporter().Ready(), nil
	})
	stop := writer.Start(15)
	began := time.Now()
	i := 0
	if faults > len(long) {
		i = c.Long()
	}
	for ; i < faults; i++ {
		c.Fault()
		if n := i + 1; n%50 == 0 {
			t.Logf("%d of %d faults in %s", n, faults, time.Since(began).Round(time.Second))
		}
	}
	for _, step := range steps {
		for tries := 0; c.Faults["  "+step] == 0 && tries < 20; tries++ {
			c.crossFailpoint(step, 1, time.Duration(8*(tries+1))*time.Second)
			c.awaitProgress(step)
		}
	}
	stop()
	log := w.AwaitComplete(t, writer, Kinds)
	v := Judge(t, w.Kube, sinceLosses(log, w.Prefix, c.Lossy), w.Prefix, Kinds)
	for _, record := range log.Controls {
		if record.Gap != nil && !record.Gap.Complete {
			t.Logf("a gap that is not complete: %s after %s: %+v", record.Stream, record.Cause, *record.Gap)
		}
	}
	for _, kind := range c.Lossy {
		wantLossSaid(t, log, w.Prefix+"."+kind.ID(), kind)
	}
	report(t, c)
	return c, v
}

// sinceLosses is a log in which kinds that have lost records begin at the end of their last loss, or of a snapshot after it. Until
// then, gap records say what may be missing. An object that the snapshot did not have to write begins there, too.
func sinceLosses(log *Log, prefix string, kinds []Kind) *Log {
	since := log.SinceLastSnapshot(prefix, kinds)
	for _, kind := range kinds {
		ends := lossEnds(log, kind)
		if len(ends) == 0 {
			continue
		}
		end, others := ends[len(ends)-1], []Record{}
		if snapshot := change.VersionOf(uint64(max(since.SnapshotEnd(kind.ID()), 0))); snapshot.Compare(end) > 0 {
			end = snapshot
		}
		for _, r := range since.Records {
			if r.Resource(prefix) != kind.ID() {
				others = append(others, r)
			}
		}
		for _, records := range since.ByKey(prefix, kind) {
			others = append(others, recordsSince(records, end)...)
		}
		since.Records = others
		since.Controls = append([]change.Control{change.SnapshotEndControl(kind.Stream(), end, 0)},
			slices.DeleteFunc(since.Controls, func(c change.Control) bool {
				return c.Stream == kind.Stream() && c.Type == change.ControlSnapshotEnd
			})...)
	}
	return since
}

func report(t *testing.T, c *Chaos) {
	names, total := []string{}, 0
	for name := range c.Faults {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		t.Logf("%-36s %4d", name, c.Faults[name])
		if name[0] != ' ' {
			total += c.Faults[name]
		}
	}
	t.Logf("%-36s %4d; exit codes %v", "faults", total, c.ExitCodes())
}

// At random moments everything dies, is cut off, slowed down or suspended. Nothing is lost, repeated or reordered.
func TestChaosExactlyOnce(t *testing.T) {
	t.Parallel()
	var some []string
	for _, i := range rand.Perm(len(failpoint.All))[:2] {
		some = append(some, failpoint.All[i])
	}
	chaosExactlyOnce(t, 6, some)
}

// The same for longer, and a process dies at each step.
func TestSlowChaosAtEachStep(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	chaosExactlyOnce(t, 14, failpoint.All)
}

func chaosExactlyOnce(t *testing.T, faults int, steps []string) {
	var settings []string
	if slices.Contains(steps, failpoint.PreparedAhead) || slices.Contains(steps, failpoint.BegunAhead) {
		settings = []string{"KUBECDC_BATCH_MAX_CHANGES", "3"} // so that a batch is full while one is written
	}
	c, v := runChaos(t, NewFragileWorld(t), chaosFaults(t, faults), steps, settings...)
	v.Demand(t, 0)
	for _, step := range steps {
		if c.Faults["  "+step] == 0 {
			t.Errorf("no process died at failpoint %s", step)
		}
	}
}

// The same with the log in Postgres, which fails over to standbys that are behind. Their missing records are written again.
func TestSlowChaosWithALogInPostgres(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewPostgresWorld(t, servers.PostgresOptions{})
	w.separateCheckpoint(t)
	c, v := runChaos(t, w, chaosFaults(t, 12), nil) // random steps are enough: they are the same
	v.Demand(t, 0)
	wantObjects(t, w, Kinds)
	if c.Faults["  records that the standby lacked"] <= 0 {
		t.Error("no standby lacked anything")
	}
}

// atLeastOnceSteps are the steps at which the result of a death depends on the delivery.
var atLeastOnceSteps = []string{failpoint.DataProduced, failpoint.ControlWritten, failpoint.Written, failpoint.RollingForward}

// The same with at-least-once: nothing is lost or reordered, and each session that had the slot repeats at most one small batch.
func TestSlowChaosAtLeastOnce(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	const batch = 10
	c, v := runChaos(t, NewFragileWorld(t), chaosFaults(t, 12), atLeastOnceSteps, "KUBECDC_KAFKA_DELIVERY", "at-least-once", "KUBECDC_BATCH_MAX_CHANGES", fmt.Sprint(batch))
	c.Stop()
	t.Logf("%d of %d changes repeated, %d sessions had the slot", v.Repeated, v.Changes, c.Wrote())
	v.Demand(t, batch*c.Wrote())
}

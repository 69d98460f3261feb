package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"kubecdc/change"
	"kubecdc/query"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
	"kubecdc/test/servers"
)

// etcd is restored from a backup, once under running exporters and once while none runs. A question about a time is answered by
// what existed then, also in the history that was undone. A resourceVersion that both histories have is refused.
func TestTheTimesOfRestoresInAFile(t *testing.T) {
	t.Parallel()
	testRestores(t, NewFileWorld(t), 1)
}

func TestSlowTheTimesOfRestoresInKafka(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	testRestores(t, NewFragileWorld(t), 1)
}

func TestSlowTheTimesOfRestoresOfReplicasInPostgres(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	testRestores(t, postgresWorld(t, servers.Lend(t), servers.PostgresOptions{}), 2)
}

func testRestores(t *testing.T, w *World, replicas int) {
	kinds := []Kind{ConfigMaps, Deployments}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w.Env = w.With("KUBECDC_RESOURCES", Resources(kinds))
	if replicas > 1 {
		w.Env = w.With("KUBECDC_SLOTS", "2")
	}
	p := &timesTest{World: w, t: t, kinds: kinds, random: rand.New(rand.NewPCG(seed, 9))}
	var running []*Exporter
	start := func() {
		running = nil
		for i := range replicas {
			e := StartExporter(t, "replica "+string(rune('0'+i)), w.Env).AwaitReady(t)
			running = append(running, e)
		}
	}
	stop := func() {
		for _, e := range running {
			e.Signal(syscall.SIGTERM)
			e.Wait(t)
		}
	}
	inLog := func() {
		for _, kind := range kinds {
			w.awaitState(t, kind)
		}
	}
	p.writer = NewWriter(t, w.Kube.Config, seed, kinds)
	p.writer.Fill(5)
	start()
	p.phase("before", 4)
	inLog()
	for i, phase := range []string{"running", "stopped"} {
		p.create("unchanged-" + phase) // nobody changes these objects, which show that what is older was in the backup
		backup, err := w.Kube.SnapshotEtcd(t.Context())
		must(t, err)
		inLog()
		p.phase("undone: "+phase, 4)
		p.writer.Run(5)
		p.create("undone-" + phase) // or the log of one kind ends before the version of a sample, and does not know that it was undone
		inLog()
		if phase == "stopped" {
			stop()
		}
		must(t, w.Kube.RestoreEtcd(context.Background(), backup))
		p.writer = NewWriter(t, w.Kube.Config, seed+uint64(i)+1, kinds)
		if phase == "stopped" {
			p.phase("unseen", 2)
			start()
		}
		inLog()
		p.phase("after: "+phase, 4)
		p.writer.Run(5)
		inLog()
	}
	p.judgeRestores()
}

// create makes an object of each kind.
func (p *timesTest) create(name string) {
	p.t.Helper()
	for _, kind := range p.kinds {
		_, err := dynamic.NewForConfigOrDie(p.Kube.Config).Resource(kind.GVR).Namespace("default").
			Create(p.t.Context(), sample(kind, name, 0, 0), metav1.CreateOptions{})
		must(p.t, err)
	}
}

// judgeRestores asks about each sample by its time and by its version.
func (p *timesTest) judgeRestores() {
	p.t.Helper()
	reader := (&pastTest{World: p.World, t: p.t}).reader()
	asked, answered, twice, late := map[string]int{}, map[string]int{}, 0, p.late()
	for _, s := range p.samples {
		for how, target := range map[string]timeline.Target{"time": {Happened: s.time}, "version": {Version: change.ResourceVersion(s.list)}} {
			name := s.phase + " by " + how
			asked[name]++
			states, err := query.ReadStates(p.t.Context(), reader, query.Question{Objects: sinks.Objects{Resources: []string{s.kind.ID()}}}, target)
			var refused *timeline.TwoStatesError
			if errors.As(err, &refused) {
				p.isRefused(s, refused, &twice)
				continue
			}
			must(p.t, err)
			if len(states[0].Missing) > 0 {
				if late(s) {
					asked[name]--
				}
				p.t.Logf("%s, %s at %s (%s): %s", name, s.kind.ID(), s.time, s.list, states[0].Missing)
				continue
			}
			answered[name]++
			p.compare(name, s, states[0])
		}
	}
	for name, n := range asked {
		p.t.Logf("%s: %d of %d are answered", name, answered[name], n)
		if n > 0 && answered[name] == 0 && name != "unseen by time" && strings.HasSuffix(name, "time") {
			p.t.Errorf("nothing is answered: %s", name)
		}
	}
	if p.t.Logf("%d versions stand for two states", twice); twice == 0 || answered["before by version"] == 0 {
		p.t.Error("no version stands for two states, or no version from before the backup is answered")
	}
}

// isRefused runs the commands for a version that stands for two states. They name both times.
func (p *timesTest) isRefused(s momentSample, refused *timeline.TwoStatesError, twice *int) {
	p.t.Helper()
	if *twice++; *twice > 1 {
		return
	}
	for _, args := range [][]string{{"state", "--at", s.list, s.kind.ID()}, {"state", "--incomplete", "--at", s.list, s.kind.ID()},
		{"diff", "--from", s.list, s.kind.ID()}, {"diff", "--from", "0/1", "--to", s.list, s.kind.ID()}} {
		stdout, stderr, code := offline(p.t, p.Env, args...)
		if code == 0 || stdout != "" || len(refused.Times) < 2 {
			p.t.Errorf("%v: exit code %d, %s", args, code, stdout)
		}
		for _, t := range refused.Times {
			if !strings.Contains(stderr, t.UTC().Format(time.RFC3339)) {
				p.t.Errorf("%v: %s", args, stderr)
			}
		}
	}
}

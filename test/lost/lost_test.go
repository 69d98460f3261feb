// Package lost measures what programs lose that bring changes of a cluster somewhere. The same happens to all of them, and etcd's own
// history says what has happened. make lost runs it, and writes the table of docs/comparison.md.
package lost

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"kubecdc/bench/peers"
	"kubecdc/change"
	"kubecdc/test/e2e"
	"kubecdc/test/servers"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// scenario is what happens to all contestants.
type scenario struct {
	name string
	kind e2e.Kind
	play func(*stage)
	gap  bool // a watch can't go on afterwards
}

var scenarios = []scenario{
	{"stopped, 300 changes, the API server restarted, started", e2e.ConfigMaps, func(s *stage) {
		s.each((*run).stop)
		s.writer.Run(300)
		must(s.t, s.kube.RestartAPIServer(s.t.Context()))
		s.each((*run).start)
	}, true},
	{"kill -9 under 800 changes, started again 100 changes later", e2e.ConfigMaps, func(s *stage) {
		done, before := make(chan struct{}), s.writer.Made.Load()
		go func() { s.writer.Run(800); close(done) }()
		awaitMade := func(n int64) {
			servers.Await(s.t, "changes to be made", func() (bool, error) { return s.writer.Made.Load() >= before+n, nil })
		}
		awaitMade(400)
		s.each((*run).kill)
		killed := s.writer.Made.Load() - before
		awaitMade(killed + 100)
		s.each((*run).start)
		<-done
	}, false},
	{"stopped, the CRD removed, started, the CRD installed again", e2e.Widgets, func(s *stage) {
		s.each((*run).stop)
		e2e.RemoveWidgets(s.t, s.kube.Config)
		s.each((*run).start)
		servers.Await(s.t, "the exporters to tell the stream's end", func() (bool, error) {
			for _, r := range s.runs {
				if r.log != nil && len(r.controls(change.ControlStreamEnd)) == 0 {
					return false, nil
				}
			}
			return true, nil
		})
		e2e.InstallWidgets(s.t, s.kube.Config)
	}, false},
	{"stopped, 12 changes, etcd compacted, started", e2e.ConfigMaps, func(s *stage) {
		s.each((*run).stop)
		s.writer.Run(12)
		must(s.t, s.kube.Compact(s.t.Context(), 0))
		must(s.t, s.kube.RestartAPIServer(s.t.Context()))
		s.each((*run).start)
	}, true},
	{"Kafka and Postgres stopped for " + outageName() + ", etcd compacted each minute", e2e.ConfigMaps, func(s *stage) {
		s.kafka.Kill()
		s.postgres.Kill()
		stop := s.writer.Start(5)
		for range 10 {
			old, err := s.kube.Revision(s.t.Context())
			must(s.t, err)
			time.Sleep(outage() / 10)
			must(s.t, s.kube.Compact(s.t.Context(), old)) // as an API server does with what is older than a minute
			s.each((*run).startAgain)
		}
		stop()
		must(s.t, s.kafka.Start(s.t.Context()))
		must(s.t, s.postgres.Start(s.t.Context()))
	}, false},
}

// outage is how long the sinks are away. KUBECDC_TEST_OUTAGE changes it, and then the table is not written.
func outage() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("KUBECDC_TEST_OUTAGE")); err == nil {
		return d
	}
	return 10 * time.Minute
}

func outageName() string {
	if outage() == 10*time.Minute {
		return "ten minutes"
	}
	return outage().String()
}

func TestLost(t *testing.T) {
	only := os.Getenv("KUBECDC_TEST_LOST")
	if only == "" {
		t.Skip("it builds other programs, and takes minutes: make lost runs it")
	}
	all := contestants(os.Getenv("KUBECDC_TEST_LOST_COLLECTOR"))
	chosen := slices.DeleteFunc(slices.Clone(all), func(c contestant) bool { return !regexp.MustCompile(only).MatchString(c.name) })
	present, absent := build(t, chosen)
	table := results{Absent: absent}
	for _, c := range present {
		table.Rows = append(table.Rows, row{Name: c.name})
	}
	for _, scenario := range scenarios {
		t.Run(scenario.name, func(t *testing.T) {
			s := newStage(t, scenario.kind, present)
			scenario.play(s)
			s.settle()
			history, err := s.kube.EtcdHistory(t.Context(), s.kind.Prefix, s.from+1)
			must(t, err)
			for i, r := range s.runs {
				v := judge(history, s.kind.Prefix, r.reports())
				if v.Lost > 0 {
					v.Says = r.says()
				}
				t.Logf("%-50s %+v", r.name, v)
				if gaps := r.controls(change.ControlGap); r.log != nil && scenario.gap && len(gaps) == 0 {
					t.Errorf("%s has no gap: the scenario measures nothing", r.name)
				}
				if r.log != nil && v.Lost > 0 && v.Says == "no" {
					t.Errorf("%s has lost %d changes and does not say so:\n%s", r.name, v.Lost, r.last().log.Bytes())
				}
				table.Rows[i].Verdicts = append(table.Rows[i].Verdicts, v)
			}
		})
	}
	if complete := len(table.Rows[0].Verdicts) == len(scenarios); !t.Failed() && complete && len(chosen) == len(all) && outage() == 10*time.Minute {
		table.write(t)
	}
}

// build builds the programs. absent says why some of them can't be had.
func build(t *testing.T, all []contestant) (present []contestant, absent []string) {
	t.Helper()
	for _, c := range all {
		if c.peer != "" {
			t.Logf("build %s", c.name)
			var err error
			c.program, err = peers.Build(context.Background(), "../..", c.peer)
			if missing, ok := errors.AsType[peers.Absent](err); ok {
				t.Logf("LEFT OUT: %s: %s", c.name, missing.Why)
				absent = append(absent, c.name+": "+missing.Why)
				continue
			}
			must(t, err)
		}
		present = append(present, c)
	}
	return present, absent
}

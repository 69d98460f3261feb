package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// collectionRows show how the costs grow with the collection: first list, relists, a start after kill -9, a gap, and
// events. The largest take minutes.
func collectionRows() (rows []row) {
	for _, objects := range []int{1000, 10_000, 100_000, 1_000_000} {
		name := "million-" + strconv.Itoa(objects)
		rows = append(rows, row{name, sized(objects)}, row{name + "-sqlite", sized(objects, inSQLite)})
	}
	return rows
}

const (
	missedChanges = 1000   // in the gap
	sizedEvents   = 20_000 // events of the watch
)

// lease is how long an owner's lease lasts. SQLite has none.
const lease = 10 * time.Second

// sized measures what the size of a collection matters to, with the default settings. Backfill is off until the restart.
func sized(objects int, settings ...setting) func(context.Context, *bench) ([]result, error) {
	return func(ctx context.Context, b *bench) ([]result, error) {
		objects := b.scaled(objects)
		server, err := b.startServer(ctx, "-objects", strconv.Itoa(objects))
		if err != nil {
			return nil, err
		}
		defer server.stop()
		started := time.Now()
		e, err := b.startExporter(ctx, server.kubeconfig, settings...)
		if err != nil {
			return nil, err
		}
		defer e.close()
		p := &pair{server: server, exporter: e}
		s := &steps{b: b, p: p, objects: objects}
		s.sinceStart("list", started, func() error { return p.follow(ctx, 1, "send", 0) })
		s.restart(ctx, noBackfill)
		s.step("relist", func() error { return p.relist(ctx, 0) })
		s.step("relist-1%", func() error { return p.relist(ctx, 100) })
		s.restart(ctx)
		s.step("gap", func() error {
			if _, err := p.server.do(ctx, "miss", missedChanges); err != nil {
				return err
			}
			return p.follow(ctx, 1, "expire", 0)
		})
		if g := p.progress.lastGap(); s.err == nil {
			s.last().remark += fmt.Sprintf("; gap of %d: complete %t, %d recovered, %d inferred, %d requests",
				missedChanges, g.Complete, g.Recovered, g.Inferred, g.Requests)
		}
		s.step("live", func() error { return p.follow(ctx, 1, "send", sizedEvents) })
		if s.err == nil {
			s.last().events, s.last().unit = sizedEvents, "event"
		}
		return s.results, s.err
	}
}

// steps measures one thing after another of a pair.
type steps struct {
	b       *bench
	p       *pair
	objects int
	results []result
	err     error
}

func (s *steps) last() *result { return &s.results[len(s.results)-1] }

// step measures one thing. Its peak is its own, of the process.
func (s *steps) step(name string, happens func() error) {
	if s.err != nil {
		return
	}
	time.Sleep(time.Second)                                                                       // what came before is done
	s.err = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.p.cmd.Process.Pid), []byte("5"), 0) // VmHWM begins anew: proc(5)
	if s.err != nil {
		return
	}
	r, err := s.p.during(happens)
	s.add(name, r, err)
}

func (s *steps) add(name string, r result, err error) {
	if s.err = err; err != nil {
		return
	}
	u, err := s.p.usage()
	r.name, r.events, r.unit, s.err = s.b.row+"-"+name, s.objects, "object", err
	r.remark = fmt.Sprintf("%.1f s; %s at the end", r.wall.Seconds(), megabytes(u.rss))
	s.results = append(s.results, r)
	if s.p.profiled {
		to := filepath.Join(s.b.plan.profile, r.name+".pprof")
		_ = os.Rename(s.b.profile()+".allocs", to+".allocs")
		_ = os.Rename(s.b.profile(), to)
	}
}

// restart measures the start after kill -9, until the log has the first new change. The lease of the killed process has ended
// before.
func (s *steps) restart(ctx context.Context, settings ...setting) {
	if s.err != nil {
		return
	}
	p := s.p
	time.Sleep(time.Second) // the last batch is checkpointed
	p.Kill()
	time.Sleep(lease)
	version, err := p.server.do(ctx, "send", 1)
	started := time.Now()
	if err == nil {
		err = s.b.startAgain(ctx, p.exporter, settings...)
	}
	if s.err = err; err != nil {
		return
	}
	s.sinceStart("restart", started, func() error { return p.awaitPositions(ctx, 1, version) })
}

// sinceStart measures what began when the process started.
func (s *steps) sinceStart(name string, started time.Time, happens func() error) {
	r, err := s.p.during(happens)
	var u usage
	if err == nil {
		u, err = s.p.usage()
		r.wall, r.cpu = time.Since(started), u.cpu
	}
	s.add(name, r, err)
}

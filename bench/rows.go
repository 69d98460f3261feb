package main

import (
	"context"
	"fmt"
	"strconv"
	"syscall"
	"time"
)

// A row is one measurement, or a few that share a run.
type row struct {
	name    string
	measure func(context.Context, *bench) ([]result, error)
}

var rows = []row{
	{"floor-live", floorLive},
	{"floor-list", floorList},
	{"informer-live", informerLive},
	{"live-none-exactly", live(liveLoad{}, before("none"))},
	{"live-none-least", live(liveLoad{}, before("none"), atLeastOnce)},
	{"live-full-exactly", live(liveLoad{}, before("full"))},
	{"live-full-least", live(liveLoad{}, before("full"), atLeastOnce)},
	{"live-none-exactly-plain", live(liveLoad{}, before("none"), uncompressed)},
	{"live-none-exactly-tls", live(liveLoad{tls: true}, before("none"))},
	{"snapshot-none", snapshot(before("none"))},
	{"snapshot-full", snapshot(before("full"))},
	{"informer-list", informerList},
	{"idle", idle},
	{"latency-exactly", latency(before("full"))},
	{"latency-least", latency(before("full"), atLeastOnce)},
	{"streams-1", live(liveLoad{objects: 20_000}, before("none"))},
	{"streams-10", live(liveLoad{streams: 10, objects: 2000}, before("none"))},
	{"streams-50", live(liveLoad{streams: 50, objects: 400}, before("none"))},
	{"streams-200", live(liveLoad{streams: 200, objects: 100}, before("none"))},
	{"objects-1000", live(liveLoad{objects: 1000}, before("none"))},
	{"objects-10000", live(liveLoad{objects: 10_000}, before("none"))},
	{"objects-100000", live(liveLoad{objects: 100_000}, before("none"))},
}

// setting changes the exporter's.
type setting struct{ name, value string }

func before(value string) setting { return setting{"KUBECDC_BEFORE", value} }

var (
	atLeastOnce  = setting{"KUBECDC_KAFKA_DELIVERY", "at-least-once"}
	uncompressed = setting{"KUBECDC_KAFKA_COMPRESSION", "none"}
	noBackfill   = setting{"KUBECDC_BACKFILL", "off"} // the server keeps no history; and the row is of the comparison
)

func settingsOf(list []setting) map[string]string {
	m := map[string]string{}
	for _, s := range list {
		m[s.name] = s.value
	}
	return m
}

const (
	liveEvents  = 100_000
	liveObjects = 10_000
	listObjects = 100_000
	warmUp      = 5000
)

// result is one line of the table.
type result struct {
	name   string
	events int
	unit   string
	cpu    time.Duration
	wall   time.Duration
	peak   int64   // bytes
	allocs float64 // an event; 0: not known
	note   string
}

// liveLoad is what the server streams.
type liveLoad struct {
	streams int // 1
	objects int // in each; liveObjects
	tls     bool
}

func (l liveLoad) server() []string {
	args := []string{"-objects", strconv.Itoa(l.objects), "-resources", strconv.Itoa(l.streams)}
	if l.tls {
		args = append(args, "-tls")
	}
	return args
}

// live measures the watch: every event is checkpointed before the clock stops.
func live(l liveLoad, settings ...setting) func(context.Context, *bench) ([]result, error) {
	l.streams = max(l.streams, 1)
	if l.objects == 0 {
		l.objects = liveObjects
	}
	return func(ctx context.Context, b *bench) ([]result, error) {
		server, err := b.startServer(ctx, l.server()...)
		if err != nil {
			return nil, err
		}
		defer server.stop()
		e, err := b.startExporter(ctx, server.kubeconfig, settingsOf(settings))
		if err != nil {
			return nil, err
		}
		defer e.close()
		if err := e.follow(ctx, server, l.streams, "send", 0); err != nil {
			return nil, err
		}
		time.Sleep(500 * time.Millisecond) // the list is done; the watches open
		if err := e.follow(ctx, server, l.streams, "send", warmUp/l.streams); err != nil {
			return nil, err
		}
		events := b.scaled(liveEvents) / l.streams
		r, err := e.during(func() error { return e.follow(ctx, server, l.streams, "send", events) })
		r.name, r.events, r.unit = b.row, events*l.streams, "event"
		return []result{r}, err
	}
}

// follow makes something happen and waits until the exporter's checkpoint has it.
func (e *exporter) follow(ctx context.Context, server *apiServer, streams int, what string, n int) error {
	version, err := server.do(ctx, what, n)
	if err != nil {
		return err
	}
	return e.awaitPositions(ctx, streams, version)
}

// during measures what the exporter uses while something happens. Allocations are in total.
func (e *exporter) during(happens func() error) (r result, err error) {
	allocations := e.allocations()
	first, err := e.usage()
	if err != nil {
		return r, err
	}
	e.signal(syscall.SIGUSR1)
	started := time.Now()
	if err := happens(); err != nil {
		return r, err
	}
	r.wall = time.Since(started)
	last, err := e.usage()
	e.signal(syscall.SIGUSR2)
	r.cpu, r.peak = last.cpu-first.cpu, last.peak
	r.allocs = e.allocations() - allocations
	return r, err
}

// signal begins and ends a profile.
func (e *exporter) signal(s syscall.Signal) {
	if e.profiled {
		_ = e.cmd.Process.Signal(s)
		time.Sleep(time.Second) // while it is written
	}
}

// snapshot measures the first list, then lists after a 410: nothing changed, then one object in a hundred.
func snapshot(settings ...setting) func(context.Context, *bench) ([]result, error) {
	return func(ctx context.Context, b *bench) (results []result, err error) {
		objects := b.scaled(listObjects)
		server, err := b.startServer(ctx, "-objects", strconv.Itoa(objects))
		if err != nil {
			return nil, err
		}
		defer server.stop()
		e, err := b.startExporter(ctx, server.kubeconfig, settingsOf(append(settings, noBackfill)))
		if err != nil {
			return nil, err
		}
		defer e.close()
		add := func(name string, happens func() error) {
			if err != nil {
				return
			}
			var r result
			r, err = e.during(happens)
			r.name, r.events, r.unit = name, objects, "object"
			results = append(results, r)
		}
		add(b.row, func() error { return e.follow(ctx, server, 1, "send", 0) })
		time.Sleep(500 * time.Millisecond)
		add(b.row+"-relist", func() error { return e.relist(ctx, server, 0) })
		add(b.row+"-relist-1%", func() error { return e.relist(ctx, server, 100) })
		return results, err
	}
}

// relist ends the watch by a 410 after one object in so many has changed unseen (0: none).
func (e *exporter) relist(ctx context.Context, server *apiServer, every int) error {
	if _, err := server.do(ctx, "touch", every); err != nil {
		return err
	}
	return e.follow(ctx, server, 1, "expire", 0)
}

// idle measures 200 streams in which nothing happens but a bookmark a minute.
func idle(ctx context.Context, b *bench) ([]result, error) {
	const streams, quiet = 200, 30 * time.Second
	server, err := b.startServer(ctx, "-objects", "100", "-resources", strconv.Itoa(streams))
	if err != nil {
		return nil, err
	}
	defer server.stop()
	e, err := b.startExporter(ctx, server.kubeconfig, nil)
	if err != nil {
		return nil, err
	}
	defer e.close()
	if err := e.follow(ctx, server, streams, "send", 0); err != nil {
		return nil, err
	}
	time.Sleep(12 * time.Second) // discovery settles
	r, err := e.during(func() error { time.Sleep(quiet); return nil })
	if err != nil {
		return nil, err
	}
	u, err := e.usage()
	r.name, r.allocs = b.row, 0
	r.note = fmt.Sprintf("%d quiet streams: %.2f%% of a core, %s now", streams, 100*r.cpu.Seconds()/r.wall.Seconds(), megabytes(u.rss))
	return []result{r}, err
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// A row is one measurement, or a few that share a run.
type row struct {
	name    string
	measure func(context.Context, *bench) ([]result, error)
}

// rowsOf returns the rows in the order in which they are measured. Peers that need more than Go, or take long to build, have rows if
// they are asked for. Rows that take minutes, and rows of the encodings, must be asked for by name.
func rowsOf(p plan) []row {
	rows := slices.Concat(floorRows, codecRows())
	if p.peers {
		rows = append(rows, peerRows...)
	}
	if rows = append(rows, otherRows...); p.only.String() != "" {
		rows = append(append(rows, collectionRows()...), encodingRows()...)
	}
	return rows
}

var floorRows = []row{
	{"floor-live", floorLive},
	{"floor-list", floorList},
	{"informer-live-none", peerLive(informer, "none", liveLoad{})},
	{"informer-list-none", peerList(informer, "none")},
}

var peerRows = []row{
	{"kube-rs-live-none", peerLive(kubeRSTyped, "none", liveLoad{})},
	{"kube-rs-live-snappy", peerLive(kubeRSTyped, "snappy", liveLoad{})},
	{"kube-rs-live-snappy-tenth", peerLive(kubeRSTyped, "snappy", tenth)},
	{"kube-rs-live-snappy-all", peerLive(kubeRSTyped, "snappy", all)},
	{"kube-rs-live-zstd", peerLive(kubeRSTyped, "zstd", liveLoad{})},
	{"kube-rs-live-zstd:1", peerLive(kubeRSTyped, "zstd:1", liveLoad{})},
	{"kube-rs-dynamic-live-none", peerLive(kubeRSDynamic, "none", liveLoad{})},
	{"kube-rs-dynamic-live-zstd", peerLive(kubeRSDynamic, "zstd", liveLoad{})},
	{"collector-live-none", peerLive(collector, "none", liveLoad{})},
	{"collector-live-zstd", peerLive(collector, "zstd", liveLoad{})},
	{"kube-rs-list-none", peerList(kubeRSTyped, "none")},
	{"kube-rs-list-snappy", peerList(kubeRSTyped, "snappy")},
	{"kube-rs-list-zstd", peerList(kubeRSTyped, "zstd")},
}

var otherRows = []row{
	{"list-none-snappy", snapshot(before("none"), codec("snappy"))},
	{"list-full-none", snapshot(before("full"), codec("none"))},
	{"list-full-snappy", snapshot(before("full"), codec("snappy"))},
	{"list-full-snappy-sqlite", snapshot(before("full"), codec("snappy"), inSQLite)},
	{"list-embedded", snapshot(embedded)},
	{"live-embedded", live(liveLoad{}, embedded)},
	{"list-full-zstd", snapshot(before("full"), codec("zstd"))},
	{"live-full-snappy-tenth", live(tenth, before("full"), codec("snappy"))},
	{"live-full-snappy-sqlite-tenth", live(tenth, before("full"), codec("snappy"), inSQLite)},
	{"live-full-zstd-tenth", live(tenth, before("full"), codec("zstd"))},
	{"live-none-snappy-tenth", live(tenth, before("none"), codec("snappy"))},
	{"live-full-snappy-all", live(all, before("full"), codec("snappy"))},
	{"live-full-snappy-sqlite-all", live(all, before("full"), codec("snappy"), inSQLite)},
	{"live-full-zstd-all", live(all, before("full"), codec("zstd"))},
	{"live-full-snappy-hot", live(hot, before("full"), codec("snappy"))},
	{"live-full-snappy-hot-all", live(hotAll, before("full"), codec("snappy"))},
	{"live-none-snappy-all", live(all, before("none"), codec("snappy"))},
	{"live-none-snappy-least", live(liveLoad{}, before("none"), codec("snappy"), atLeastOnce)},
	{"live-full-snappy-least", live(liveLoad{}, before("full"), codec("snappy"), atLeastOnce)},
	{"live-full-snappy-dropped", live(liveLoad{}, before("full"), codec("snappy"), dropped)},
	{"live-none-snappy-tls", live(liveLoad{tls: true}, before("none"), codec("snappy"))},
	{"idle", idle},
	{"latency-exactly", latency(before("full"))},
	{"latency-exactly-protocol2", latency(before("full"), protocol2)},
	{"latency-least", latency(before("full"), atLeastOnce)},
	{"latency-api", latencyAPI},
	{"streams-1", live(liveLoad{objects: 20_000}, before("none"))},
	{"streams-10", live(liveLoad{streams: 10, objects: 2000}, before("none"))},
	{"streams-50", live(liveLoad{streams: 50, objects: 400}, before("none"))},
	{"streams-200", live(liveLoad{streams: 200, objects: 100}, before("none"))},
	{"streams-200-quiet", quietStreams},
	{"gaps-500", coordinated(500)},
	{"gaps-2000", coordinated(2000)},
	{"gaps-4000", coordinated(4000)},
	{"objects-1000", live(liveLoad{objects: 1000}, before("none"))},
	{"objects-10000", live(liveLoad{objects: 10_000}, before("none"))},
	{"objects-100000", live(liveLoad{objects: 100_000}, before("none"))},
}

// codecRows are of each codec, with each checkpoint: live-BEFORE-CODEC, and live-BEFORE-CODEC-sqlite.
func codecRows() (rows []row) {
	for _, image := range []string{"none", "full"} {
		for _, name := range []string{"none", "lz4", "snappy", "gzip", "zstd"} {
			inPostgres := "live-" + image + "-" + name
			rows = append(rows, row{inPostgres, live(liveLoad{}, before(image), codec(name))},
				row{inPostgres + "-sqlite", live(liveLoad{}, before(image), codec(name), inSQLite)})
		}
	}
	return rows
}

const (
	liveEvents  = 60_000
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
	remark string
}

// liveLoad is what the server streams.
type liveLoad struct {
	streams   int // 1
	objects   int // in each; liveObjects
	rewrites  int // so many of a hundred updates change three tenths of the object
	tls       bool
	described bool // by the OpenAPI document of pods
}

// An update changes a version and four times. In these loads a tenth of the updates, or all of them, change three tenths of the object
// too.
var tenth, all = liveLoad{rewrites: 10}, liveLoad{rewrites: 100}

// So few objects change often.
var hot, hotAll = liveLoad{objects: 1000}, liveLoad{objects: 1000, rewrites: 100}

func (l liveLoad) server() []string {
	args := []string{"-objects", strconv.Itoa(l.objects), "-resources", strconv.Itoa(l.streams),
		"-rewrites", strconv.Itoa(l.rewrites)}
	if l.tls {
		args = append(args, "-tls")
	}
	if l.described {
		args = append(args, "-openapi", "schema/testdata/pods.openapi.json")
	}
	return args
}

func (l liveLoad) orDefault() liveLoad {
	l.streams, l.objects = max(l.streams, 1), cmp.Or(l.objects, liveObjects)
	return l
}

// live measures the watch: every event is checkpointed before the clock stops.
func live(l liveLoad, settings ...setting) func(context.Context, *bench) ([]result, error) {
	l = l.orDefault()
	return func(ctx context.Context, b *bench) ([]result, error) {
		p, err := b.startPair(ctx, l.server(), settings...)
		if err != nil {
			return nil, err
		}
		defer p.close()
		if err := p.follow(ctx, l.streams, "send", 0); err != nil {
			return nil, err
		}
		time.Sleep(500 * time.Millisecond) // the list is done; the watches open
		if err := p.follow(ctx, l.streams, "send", warmUp/l.streams); err != nil {
			return nil, err
		}
		events := b.scaled(liveEvents) / l.streams
		r, err := p.during(func() error { return p.follow(ctx, l.streams, "send", events) })
		r.name, r.events, r.unit = b.row, events*l.streams, "event"
		return []result{r}, err
	}
}

// snapshot measures the first list, then lists after a 410: nothing changed, then one object in a hundred.
func snapshot(settings ...setting) func(context.Context, *bench) ([]result, error) {
	return func(ctx context.Context, b *bench) (results []result, err error) {
		objects := b.scaled(listObjects)
		p, err := b.startPair(ctx, []string{"-objects", strconv.Itoa(objects)}, append(settings, noBackfill)...)
		if err != nil {
			return nil, err
		}
		defer p.close()
		add := func(name string, happens func() error) {
			if err != nil {
				return
			}
			var r result
			r, err = p.during(happens)
			r.name, r.events, r.unit = name, objects, "object"
			results = append(results, r)
		}
		add(b.row, func() error { return p.follow(ctx, 1, "send", 0) })
		if p.profiled {
			return results, err // a row has one profile
		}
		time.Sleep(500 * time.Millisecond)
		add(b.row+"-relist", func() error { return p.relist(ctx, 0) })
		add(b.row+"-relist-1%", func() error { return p.relist(ctx, 100) })
		return results, err
	}
}

// idle measures 200 streams in which nothing happens but a bookmark a minute.
func idle(ctx context.Context, b *bench) ([]result, error) {
	const streams, quiet = 200, 30 * time.Second
	p, err := b.startPair(ctx, []string{"-objects", "100", "-resources", strconv.Itoa(streams)})
	if err != nil {
		return nil, err
	}
	defer p.close()
	if err := p.follow(ctx, streams, "send", 0); err != nil {
		return nil, err
	}
	time.Sleep(12 * time.Second) // discovery settles
	r, err := p.during(func() error { time.Sleep(quiet); return nil })
	if err != nil {
		return nil, err
	}
	u, err := p.usage()
	r.name, r.allocs = b.row, 0
	r.remark = fmt.Sprintf("%d quiet streams: %.2f%% of a core, %s now", streams, 100*r.cpu.Seconds()/r.wall.Seconds(), megabytes(u.rss))
	return []result{r}, err
}

// quietStreams measures one busy stream among 200: 190 have nothing but bookmarks, and nine a change for a hundred of the busy
// one's.
func quietStreams(ctx context.Context, b *bench) ([]result, error) {
	const streams, active = 200, 10
	p, err := b.startPair(ctx, []string{"-objects", "100", "-resources", strconv.Itoa(streams)}, before("none"))
	if err != nil {
		return nil, err
	}
	defer p.close()
	send := func(events int) error {
		some, err1 := p.server.do(ctx, "send", events/100, active)
		busy, err2 := p.server.do(ctx, "send", events-events/100, 1)
		return errors.Join(err1, err2, p.awaitPositions(ctx, 1, busy), p.awaitPositions(ctx, active, some))
	}
	if err := p.follow(ctx, streams, "send", 0); err != nil {
		return nil, err
	}
	time.Sleep(500 * time.Millisecond) // the watches open
	if err := send(warmUp); err != nil {
		return nil, err
	}
	events := b.scaled(liveEvents)
	r, err := p.during(func() error { return send(events) })
	r.name, r.events, r.unit = b.row, events+events/100*(active-1), "event"
	return []result{r}, err
}

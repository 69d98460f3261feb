package main

import (
	"bufio"
	"context"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
)

// cpuOf returns the CPU time of all processes below this one, by their names, with the time of their children that have ended. This
// process's own children that have ended are the exporters that are killed.
func cpuOf() map[string]float64 {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	parents, names, cpu, ended := map[int]int{}, map[int]string{}, map[int]float64{}, map[int]float64{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		_, rest, _ := strings.Cut(string(text), " (")
		end := strings.LastIndex(rest, ") ")
		fields := strings.Fields(rest[end+2:])
		names[pid] = rest[:end]
		parents[pid], _ = strconv.Atoi(fields[1])
		for i, f := range fields[11:15] { // utime, stime, cutime, cstime: proc(5)
			ticks, _ := strconv.ParseFloat(f, 64)
			if cpu[pid] += ticks / 100; i > 1 { // USER_HZ is 100 on every Linux that Go runs on
				ended[pid] += ticks / 100
			}
		}
	}
	all := map[string]float64{"exporter": ended[os.Getpid()]}
	for pid := range names {
		for p := parents[pid]; p > 1; p = parents[p] {
			if p == os.Getpid() {
				all[names[pid]] += cpu[pid]
			}
		}
	}
	return all
}

// metrics has the series of an exporter, and for each metric their sum.
func metrics(listen string) map[string]float64 {
	all := map[string]float64{}
	response, err := http.Get("http://" + listen + "/metrics")
	if err != nil {
		return all
	}
	defer response.Body.Close()
	for s := bufio.NewScanner(response.Body); s.Scan(); {
		series, value, _ := strings.Cut(s.Text(), " ")
		name, _, _ := strings.Cut(series, "{")
		n, _ := strconv.ParseFloat(value, 64)
		all[name] += n
		if name != series {
			all[series] = n
		}
	}
	return all
}

// counted is what all have used and written up to a moment, or between two.
type counted struct {
	CPU            map[string]float64 // seconds, by program: exporter, java, postgres
	Topics         map[string]float64 // bytes on all brokers
	Batches        map[string]float64 // by slot
	Changes        float64
	WAL, Commits   float64 // Postgres: bytes, transactions
	Pages, Watches float64 // requests to the API server
}

func (t *trial) count(ctx context.Context) (c counted, err error) {
	c.CPU, c.Topics, c.Pages, c.Watches = cpuOf(), map[string]float64{}, float64(t.api.pages.Load()), float64(t.api.watches.Load())
	t.judge.mutex.Lock()
	c.Batches = maps.Clone(t.judge.batches)
	t.judge.mutex.Unlock()
	t.api.mu.Lock()
	c.Changes = float64(len(t.api.sent))
	t.api.mu.Unlock()
	all, err := kadm.NewClient(t.judge.client).DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return c, err
	}
	all.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) { c.Topics[p.Topic] += float64(p.Size) })
	})
	conn, err := pgx.Connect(ctx, t.database)
	if err != nil {
		return c, err
	}
	defer conn.Close(ctx)
	return c, conn.QueryRow(ctx, `select (pg_current_wal_lsn() - '0/0')::float8, xact_commit::float8 from pg_stat_database
		where datname = current_database()`).Scan(&c.WAL, &c.Commits)
}

func (c counted) since(b counted) counted {
	return counted{less(c.CPU, b.CPU), less(c.Topics, b.Topics), less(c.Batches, b.Batches), c.Changes - b.Changes,
		c.WAL - b.WAL, c.Commits - b.Commits, c.Pages - b.Pages, c.Watches - b.Watches}
}

func less(now, before map[string]float64) map[string]float64 {
	differences := map[string]float64{}
	for name, n := range now {
		differences[name] = n - before[name]
	}
	return differences
}

func sum(all map[string]float64) (n float64) {
	for _, v := range all {
		n += v
	}
	return n
}

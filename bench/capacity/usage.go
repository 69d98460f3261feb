package main

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// cpuOf is the CPU time of all processes below this one, by their names, with that of their children that have ended. Of this one's
// own children it is the exporters that are killed.
func cpuOf() map[string]time.Duration {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	parents, names, cpu, ended := map[int]int{}, map[int]string{}, map[int]time.Duration{}, map[int]time.Duration{}
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
			n, _ := strconv.ParseInt(f, 10, 64)
			used := time.Duration(n) * time.Second / 100 // USER_HZ is 100 on every Linux that Go runs on
			if cpu[pid] += used; i > 1 {
				ended[pid] += used
			}
		}
	}
	all := map[string]time.Duration{"exporter": ended[os.Getpid()]}
	for pid := range names {
		for p := parents[pid]; p > 1; p = parents[p] {
			if p == os.Getpid() {
				all[names[pid]] += cpu[pid]
			}
		}
	}
	return all
}

// memoryOf is what a process holds now, in bytes.
func memoryOf(pid int) int64 {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	fields := strings.Fields(after)
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(fields[0], 10, 64)
	return n << 10
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

// topicBytes is the size of each topic, on all brokers together.
func topicBytes(ctx context.Context, client *kgo.Client) (map[string]int64, error) {
	all, err := kadm.NewClient(client).DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	all.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) { sizes[p.Topic] += p.Size })
	})
	return sizes, nil
}

// database is what Postgres has done so far.
type database struct{ wal, size, commits int64 }

func databaseOf(ctx context.Context, url string) (d database, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return d, err
	}
	defer conn.Close(ctx)
	const look = `select (pg_current_wal_lsn() - '0/0')::bigint, pg_database_size(current_database()),
		(select xact_commit from pg_stat_database where datname = current_database())`
	return d, conn.QueryRow(ctx, look).Scan(&d.wal, &d.size, &d.commits)
}

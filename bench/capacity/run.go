package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kubecdc/test/exporter"
	"kubecdc/test/servers"
)

// trial is a run of a scaled cluster: its servers, the processes, and what was counted when the changes began.
type trial struct {
	cluster
	slots, processes int
	rest             time.Duration // before the changes begin
	more             []string      // settings
	dir              string
	api              *apiServer
	judge            *judge
	kafka            []*servers.Kafka
	database         string
	settings         []string
	exporters        []*exporter.Process
	began            time.Time
	before           counted
	result           measured
	out              string        // file for it
	memory           map[int]int64 // by process, at most
	committed        [2]float64    // of the processes that run: seconds and number of commits in the sink
}

// counted is what all have used and written up to a moment.
type counted struct {
	cpu      map[string]time.Duration
	topics   map[string]int64
	database database
	pages    int64
	watches  int64
	bytes    int64
	batches  map[string]int
	sent     int
}

func (t *trial) prepare(ctx context.Context) (err error) {
	if t.dir, err = os.MkdirTemp("", "kubecdc-capacity-"); err != nil {
		return err
	}
	if t.api, err = newAPIServer(t.cluster); err != nil {
		return err
	}
	kubeconfig := filepath.Join(t.dir, "kubeconfig")
	if err = t.api.listen(kubeconfig); err != nil {
		return err
	}
	if err = t.startBrokers(ctx); err != nil {
		return err
	}
	postgres, err := servers.StartPostgres(ctx, servers.PostgresOptions{})
	if err != nil {
		return err
	}
	if t.database, err = postgres.CreateDatabase(ctx, "capacity"); err != nil {
		return err
	}
	if t.judge, err = t.api.judge(t.kafka[0].Brokers, "capacity"); err != nil {
		return err
	}
	go t.judge.run(ctx)
	t.settings = []string{"KUBECONFIG=" + kubeconfig, "KUBECDC_SINK=kafka", "KUBECDC_KAFKA_BROKERS=" + t.kafka[0].Brokers[0],
		"KUBECDC_KAFKA_TOPIC_PREFIX=capacity", "KUBECDC_CHECKPOINT=" + t.database, fmt.Sprintf("KUBECDC_SLOTS=%d", t.slots)}
	t.settings = append(t.settings, t.more...)
	return exporter.Build(ctx, filepath.Join(t.dir, "exporter"))
}

// startBrokers starts three, as a production cluster has them: three replicas of everything, two of which must have a record.
func (t *trial) startBrokers(ctx context.Context) error {
	first, err := servers.StartKafka(ctx, servers.KafkaOptions{Properties: map[string]string{
		"default.replication.factor": "3", "min.insync.replicas": "2", "offsets.topic.replication.factor": "3",
		"transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2", "transaction.state.log.num.partitions": "50"}})
	if err != nil {
		return err
	}
	t.kafka = []*servers.Kafka{first}
	for len(t.kafka) < 3 {
		next, err := t.kafka[len(t.kafka)-1].Join(ctx)
		if err != nil {
			return err
		}
		t.kafka = append(t.kafka, next)
	}
	return nil
}

func (t *trial) start() error {
	log, err := os.OpenFile(filepath.Join(t.dir, "exporters.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	e, err := exporter.Start(filepath.Join(t.dir, "exporter"), t.settings, nil, log)
	t.exporters = append(t.exporters, e)
	return err
}

// close stops the exporters, which write no more once they are measured, and the servers.
func (t *trial) close() {
	for _, e := range t.exporters {
		if e != nil {
			e.Kill()
		}
	}
	_ = servers.StopAll()
	os.RemoveAll(t.dir)
}

// runTrial runs it: first list, changes for some minutes, a process killed at half time and started again, the verdict.
func runTrial(ctx context.Context, t *trial, during time.Duration, kill bool) error {
	defer t.close()
	if err := t.prepare(ctx); err != nil {
		return err
	}
	for range t.processes {
		if err := t.start(); err != nil {
			return err
		}
	}
	fmt.Printf("%s: %d objects are read\n", stamp(), len(t.api.sent))
	if err := t.await(ctx, "the first lists", 0); err != nil {
		return err
	}
	last, err := t.count(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%s: all are read; at rest:\n", stamp())
	time.Sleep(t.rest)
	if t.before, err = t.report(ctx, last); err != nil {
		return err
	}
	t.result.CPUAtRest, t.result.RestSeconds = less(t.before.cpu, last.cpu), t.rest.Seconds()
	t.began, last = time.Now(), t.before
	ended := make(chan struct{})
	go func() { t.api.run(ctx, t.began.Add(during)); close(ended) }()
	for minute := 1; ; minute++ {
		select {
		case <-ended:
			return t.finish(ctx)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(t.began.Add(time.Duration(minute) * time.Minute))):
		}
		if kill && minute == int(during.Minutes()/2) {
			if err := t.killOne(); err != nil {
				return err
			}
		}
		if last, err = t.report(ctx, last); err != nil {
			return err
		}
	}
}

func stamp() string { return time.Now().Format("15:04:05") }

// killOne kills a process and starts another one in its place.
func (t *trial) killOne() error {
	old := t.exporters[0]
	fmt.Printf("%s: kill -9 of the process with %.0f slots; another one starts\n", stamp(), metrics(old.Listen)["kubecdc_slot_held"])
	old.Kill()
	t.exporters = t.exporters[1:]
	return t.start()
}

func (t *trial) await(ctx context.Context, what string, allowed int) error {
	for t.judge.missing() > allowed {
		for _, e := range t.exporters {
			if !e.Running() {
				return errors.New("an exporter has ended:\n" + t.log())
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %d versions are missing: %w", what, t.judge.missing(), ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil
}

func (t *trial) log() string {
	text, _ := os.ReadFile(filepath.Join(t.dir, "exporters.log"))
	return string(text[max(0, len(text)-4000):])
}

func (t *trial) count(ctx context.Context) (c counted, err error) {
	c.cpu, c.pages, c.watches, c.bytes = cpuOf(), t.api.pages.Load(), t.api.watches.Load(), t.api.bytes.Load()
	if c.topics, err = topicBytes(ctx, t.judge.client); err != nil {
		return c, err
	}
	t.judge.mutex.Lock()
	c.batches = maps.Clone(t.judge.batches)
	t.judge.mutex.Unlock()
	t.api.mu.Lock()
	c.sent = len(t.api.sent)
	t.api.mu.Unlock()
	c.database, err = databaseOf(ctx, t.database)
	return c, err
}

// report prints what was used since the last one.
func (t *trial) report(ctx context.Context, last counted) (counted, error) {
	now, err := t.count(ctx)
	if err != nil {
		return now, err
	}
	late := t.judge.latency()
	var processes []string
	t.committed = [2]float64{}
	for _, e := range t.exporters {
		m, pid := metrics(e.Listen), e.Cmd.Process.Pid
		t.memory[pid] = max(t.memory[pid], memoryOf(pid))
		t.committed[0] += m[`kubecdc_commit_seconds_sum{stage="sink"}`]
		t.committed[1] += m[`kubecdc_commit_seconds_count{stage="sink"}`]
		processes = append(processes, fmt.Sprintf("%.0f slots %.0f changes %.0f batches %.1f s CPU %d MB", m["kubecdc_slot_held"],
			m["kubecdc_changes_total"], m["kubecdc_batches_total"], m["process_cpu_seconds_total"], memoryOf(pid)/1e6))
	}
	used := less(now.cpu, last.cpu)
	fmt.Printf("%s: %d changes, %d batches, p50 %s, p99 %s; CPU: exporters %.1f s, brokers %.1f s, Postgres %.1f s; WAL %.1f MB; %s\n", stamp(),
		now.sent-last.sent, sum(now.batches)-sum(last.batches), quantile(late, 0.5), quantile(late, 0.99), used["exporter"], used["java"],
		used["postgres"], float64(now.database.wal-last.database.wal)/1e6, strings.Join(processes, "; "))
	return now, nil
}

func sum(all map[string]int) (n int) {
	for _, v := range all {
		n += v
	}
	return n
}

// less is CPU time between two moments, in seconds.
func less(now, last map[string]time.Duration) map[string]float64 {
	used := map[string]float64{}
	for name, cpu := range now {
		used[name] = (cpu - last[name]).Seconds()
	}
	return used
}

// finish waits until all is delivered, judges it, and writes down what it took.
func (t *trial) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := t.await(ctx, "the end", 0); err != nil {
		return err
	}
	now, err := t.report(ctx, t.before)
	if err != nil {
		return err
	}
	t.fill(now)
	if err := t.result.write(t.out); err != nil {
		return err
	}
	if err := t.judge.verdict(); err != nil {
		return err
	}
	fmt.Printf("%d changes were delivered exactly once, each object's in order\n", now.sent)
	return nil
}

func (t *trial) fill(now counted) {
	m, before := &t.result, t.before
	m.Nodes, m.Pods, m.PodsADay, m.Scale, m.Slots, m.Processes = t.nodes, t.pods, t.podsADay, t.scale, t.slots, t.processes
	m.Seconds, m.Objects = time.Since(t.began).Seconds(), before.sent
	m.Changes, m.Batches, m.Topics = map[string]int{}, map[string]int{}, map[string]int64{}
	for _, v := range t.api.sent[before.sent:now.sent] {
		m.Changes[v.object.Plural]++
	}
	for slot, n := range now.batches {
		m.Batches[slot] = n - before.batches[slot]
	}
	for topic, size := range now.topics {
		m.Topics[topic] = size - before.topics[topic]
	}
	m.CPU = less(now.cpu, before.cpu)
	m.WAL, m.Database, m.Commits = now.database.wal-before.database.wal, now.database.size, now.database.commits-before.database.commits
	m.Pages, m.Watches, m.Sent = now.pages-before.pages, now.watches-before.watches, now.bytes-before.bytes
	m.Commit = t.committed[0] / max(1, t.committed[1])
	m.P50, m.P99 = quantile(t.judge.all, 0.5).Seconds(), quantile(t.judge.all, 0.99).Seconds()
	for _, most := range t.memory {
		m.Memory = append(m.Memory, most)
	}
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kubecdc/test/exporter"
	"kubecdc/test/servers"
)

// trial is a run of a part of a cluster, between its servers.
type trial struct {
	cluster
	slots, processes int
	minutes          int
	file             string   // for the result
	settings         []string // settings of the exporters

	dir       string
	api       *apiServer
	judge     *judge
	database  string
	exporters []*exporter.Process
	result    result
}

// result is what a trial took, from the first change to the last record.
type result struct {
	Nodes, Pods, PodsADay, Scale float64
	Slots, Processes             int
	Seconds                      float64 // in which changes were made
	Used                         counted
	Commit                       float64         // seconds that a batch takes in the sink, on average
	P50, P99                     time.Duration   // from a change to its record
	Memory                       map[int]float64 // bytes of each process, at most
}

func (t *trial) run(ctx context.Context) (err error) {
	if t.dir, err = os.MkdirTemp("", "kubecdc-capacity-"); err != nil {
		return err
	}
	defer os.RemoveAll(t.dir)
	defer servers.StopAll()
	if err = t.prepare(ctx); err != nil {
		return err
	}
	for range t.processes {
		if err := t.start(); err != nil {
			return err
		}
	}
	fmt.Printf("%s: %d objects are read\n", now(), t.judge.initial)
	if err := t.await(ctx); err != nil {
		return err
	}
	before, err := t.count(ctx)
	if err == nil {
		err = t.pass(ctx, before)
	}
	if err != nil {
		return err
	}
	return t.finish(ctx, before)
}

// prepare starts the servers. Kafka is as in production: three brokers and three replicas, two of which must have a record.
func (t *trial) prepare(ctx context.Context) (err error) {
	kubeconfig := filepath.Join(t.dir, "kubeconfig")
	if t.api, err = newAPIServer(t.cluster); err == nil {
		err = t.api.listen(kubeconfig)
	}
	if err != nil {
		return err
	}
	kafka, err := servers.StartKafka(ctx, servers.KafkaOptions{Properties: map[string]string{
		"default.replication.factor": "3", "min.insync.replicas": "2", "offsets.topic.replication.factor": "3",
		"transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2", "transaction.state.log.num.partitions": "50"}})
	for last, n := kafka, 1; n < brokers && err == nil; n++ {
		last, err = last.Join(ctx)
	}
	if err != nil {
		return err
	}
	postgres, err := servers.StartPostgres(ctx, servers.PostgresOptions{Fsync: true})
	if err != nil {
		return err
	}
	if t.database, err = postgres.CreateDatabase(ctx, "capacity"); err != nil {
		return err
	}
	if t.judge, err = t.api.judge(kafka.Brokers, "capacity"); err != nil {
		return err
	}
	go t.judge.run(ctx)
	t.settings = append([]string{"KUBECONFIG=" + kubeconfig, "KUBECDC_SINK=kafka", "KUBECDC_KAFKA_BROKERS=" + kafka.Brokers[0],
		"KUBECDC_KAFKA_TOPIC_PREFIX=capacity", "KUBECDC_CHECKPOINT=" + t.database, fmt.Sprintf("KUBECDC_SLOTS=%d", t.slots)}, t.settings...)
	return exporter.Build(ctx, filepath.Join(t.dir, "exporter"))
}

func (t *trial) start() error {
	log, err := os.OpenFile(filepath.Join(t.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	e, err := exporter.Start(filepath.Join(t.dir, "exporter"), t.settings, nil, log)
	if err == nil {
		t.exporters = append(t.exporters, e)
	}
	return err
}

// pass reports each minute until all changes are made. At half time it kills a process and starts another one.
func (t *trial) pass(ctx context.Context, last counted) error {
	began, ended := time.Now(), make(chan struct{})
	go func() { t.api.live(began.Add(time.Duration(t.minutes) * time.Minute)); close(ended) }()
	for minute := 1; ; minute++ {
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(began.Add(time.Duration(minute) * time.Minute))):
		}
		now, err := t.report(ctx, last)
		if err != nil {
			return err
		}
		if last = now; minute == t.minutes/2 {
			t.exporters[0].Kill()
			t.exporters = t.exporters[1:]
			if err := t.start(); err != nil {
				return err
			}
		}
	}
}

func now() string { return time.Now().Format(time.TimeOnly) }

// await waits until the log has all that was sent.
func (t *trial) await(ctx context.Context) error {
	return servers.Until(ctx, "records of all versions", func() (bool, error) {
		for _, e := range t.exporters {
			if !e.Running() {
				text, _ := os.ReadFile(filepath.Join(t.dir, "log"))
				return false, fmt.Errorf("an exporter has ended:\n%s", text[max(0, len(text)-2000):])
			}
		}
		return t.judge.missing() == 0, nil
	})
}

// report prints what was used since the last one.
func (t *trial) report(ctx context.Context, last counted) (counted, error) {
	all, err := t.count(ctx)
	if err != nil {
		return all, err
	}
	var processes []string
	seconds, commits := 0.0, 0.0
	for _, e := range t.exporters {
		m, pid := metrics(e.Listen), e.Cmd.Process.Pid
		t.result.Memory[pid] = max(t.result.Memory[pid], m["process_resident_memory_bytes"])
		seconds, commits = seconds+m[`kubecdc_commit_seconds_sum{stage="sink"}`], commits+m[`kubecdc_commit_seconds_count{stage="sink"}`]
		processes = append(processes, fmt.Sprintf("%.0f slots, %.0f changes in %.0f batches, CPU %.1f s, %.0f MB", m["kubecdc_slot_held"],
			m["kubecdc_changes_total"], m["kubecdc_batches_total"], m["process_cpu_seconds_total"], m["process_resident_memory_bytes"]/1e6))
	}
	t.result.Commit = seconds / max(1, commits)
	used, late := all.since(last), t.judge.latency()
	fmt.Printf("%s: %.0f changes, %.0f batches, p50 %s, p99 %s; CPU: exporters %.1f s, brokers %.1f s, Postgres %.1f s; WAL %.1f MB; %s\n", now(),
		used.Changes, sum(used.Batches), quantile(late, 0.5), quantile(late, 0.99), used.CPU["exporter"], used.CPU["java"], used.CPU["postgres"],
		used.WAL/1e6, strings.Join(processes, "; "))
	return all, nil
}

// finish waits until all is delivered, judges it, and writes down what it took.
func (t *trial) finish(ctx context.Context, before counted) error {
	if err := t.await(ctx); err != nil {
		return err
	}
	all, err := t.report(ctx, before)
	if err != nil {
		return err
	}
	if err := t.judge.verdict(); err != nil {
		return err
	}
	fmt.Printf("%.0f changes were delivered once, those of each object in order\n", all.Changes)
	r := &t.result
	r.Nodes, r.Pods, r.PodsADay, r.Scale, r.Slots, r.Processes = t.nodes, t.pods, t.podsADay, t.scale, t.slots, t.processes
	r.Seconds, r.Used = float64(60*t.minutes), all.since(before)
	r.P50, r.P99 = quantile(t.judge.all, 0.5), quantile(t.judge.all, 0.99)
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(t.file, text, 0o644)
}

func readResult(file string) (r result, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

// largest is the memory of the largest process.
func (r result) largest() float64 { return slices.Max(slices.Collect(maps.Values(r.Memory))) }

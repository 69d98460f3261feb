package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"kubecdc/test/servers"
)

// exporter is one run of the exporter, and how far it is.
type exporter struct {
	*process
	listen   string
	prefix   string // prefix of its topics
	env      []string
	progress *progress
	profiled bool
}

// startExporter starts it with a checkpoint and topics of its own.
func (b *bench) startExporter(ctx context.Context, kubeconfig string, settings ...setting) (e *exporter, err error) {
	b.runs++
	name := fmt.Sprintf("bench%d", b.runs)
	e = &exporter{prefix: name}
	checkpoint, err := b.checkpoint(ctx, name, settings)
	if err != nil {
		return nil, err
	}
	e.env = []string{"KUBECONFIG=" + kubeconfig, "KUBECDC_LOG_FORMAT=text", "KUBECDC_CHECKPOINT=" + checkpoint}
	if !slices.Contains(settings, embedded) {
		e.env = append(e.env, "KUBECDC_SINK=kafka", "KUBECDC_KAFKA_BROKERS="+b.kafka.Brokers[0], "KUBECDC_KAFKA_TOPIC_PREFIX="+name)
	}
	for _, s := range settings {
		if s != inSQLite {
			e.env = append(e.env, s.name+"="+s.value)
		}
	}
	if e.profiled = b.plan.profile != ""; e.profiled {
		e.env = append(e.env, "KUBECDC_PROFILE="+b.profile())
	}
	if slices.Contains(settings, embedded) {
		if err = b.startAgain(ctx, e); err == nil {
			e.progress, err = followFile(ctx, b.file(name+".db"))
		}
		return e, err
	}
	if e.progress, err = b.followControl(name); err != nil {
		return nil, err
	}
	return e, b.startAgain(ctx, e)
}

func (b *bench) profile() string { return filepath.Join(b.plan.profile, b.row+".pprof") }

// startAgain starts the exporter's process, or another one in its place.
func (b *bench) startAgain(ctx context.Context, e *exporter, settings ...setting) (err error) {
	if e.listen, err = servers.FreeAddress(); err != nil {
		return err
	}
	env := append(slices.Clone(e.env), "KUBECDC_LISTEN="+e.listen)
	for _, s := range settings {
		env = append(env, s.name+"="+s.value)
	}
	b.runs++
	if e.process, err = start(b.file(fmt.Sprintf("%s.%d.log", e.prefix, b.runs)), env, b.file("exporter"), "run"); err != nil {
		return err
	}
	for e.profiled && e.metric("go_goroutines") == 0 { // until it listens, the signal that begins a profile would end it
		if _, err := e.usage(); err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

// checkpoint is a new database, or a new file.
func (b *bench) checkpoint(ctx context.Context, name string, settings []setting) (string, error) {
	if slices.Contains(settings, inSQLite) || slices.Contains(settings, embedded) {
		return "sqlite:" + b.file(name+".db"), nil
	}
	return b.postgres.CreateDatabase(ctx, name)
}

func (e *exporter) close() {
	e.stop()
	e.progress.close()
}

// awaitPositions waits until so many streams are checkpointed at the version or after it. All before it is in the log
// first, so the exporter itself is asked only then.
func (e *exporter) awaitPositions(ctx context.Context, streams int, version uint64) error {
	poll := 5 * time.Millisecond
	for e.progress.reached(version) < streams || e.metric("kubecdc_buffer_changes", "kubecdc_checkpoint_pending_objects") > 0 {
		if e.progress.reached(version) >= streams {
			poll = 400 * time.Millisecond // it costs the exporter CPU
		}
		if _, err := e.usage(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return e.failed(fmt.Sprintf("has %d of %d streams at resourceVersion %d", e.progress.reached(version), streams, version))
		case <-time.After(poll):
		}
	}
	return nil
}

// metric adds up the series of metrics. It returns 0 if there is no answer.
func (e *exporter) metric(names ...string) (sum float64) {
	response, err := http.Get("http://" + e.listen + "/metrics")
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	for s := bufio.NewScanner(response.Body); s.Scan(); {
		series, value, _ := strings.Cut(s.Text(), " ")
		metric, _, _ := strings.Cut(series, "{")
		if slices.Contains(names, metric) {
			n, _ := strconv.ParseFloat(value, 64)
			sum += n
		}
	}
	return sum
}

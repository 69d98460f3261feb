package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/test/servers"
)

// exporter is one run of the exporter, and how far its checkpoint is.
type exporter struct {
	*process
	listen   string
	prefix   string // of its topics
	database *pgx.Conn
	profiled bool
}

// startExporter starts it with a database and topics of its own.
func (b *bench) startExporter(ctx context.Context, kubeconfig string, settings ...setting) (*exporter, error) {
	b.runs++
	name := fmt.Sprintf("bench%d", b.runs)
	url, err := b.postgres.CreateDatabase(ctx, name)
	if err != nil {
		return nil, err
	}
	e := &exporter{prefix: name}
	if e.listen, err = servers.FreeAddress(); err != nil {
		return nil, err
	}
	if e.database, err = pgx.Connect(ctx, url); err != nil {
		return nil, err
	}
	env := []string{"KUBECONFIG=" + kubeconfig, "KUBECDC_LISTEN=" + e.listen, "KUBECDC_LOG_FORMAT=text",
		"KUBECDC_SINK=kafka", "KUBECDC_KAFKA_BROKERS=" + b.kafka.Brokers[0], "KUBECDC_KAFKA_TOPIC_PREFIX=" + name,
		"KUBECDC_CHECKPOINT=" + url}
	for _, s := range settings {
		env = append(env, s.name+"="+s.value)
	}
	if e.profiled = b.plan.profile != ""; e.profiled {
		env = append(env, "KUBECDC_PROFILE="+filepath.Join(b.plan.profile, b.row+".pprof"))
	}
	e.process, err = start(b.file(name+".log"), env, b.file("exporter"), "run")
	return e, err
}

func (e *exporter) close() {
	e.stop()
	_ = e.database.Close(context.Background())
}

// awaitPositions waits until so many streams are checkpointed at the version or after it: all before it is then in
// the log too. It asks Postgres, which costs the exporter nothing.
func (e *exporter) awaitPositions(ctx context.Context, streams int, version uint64) error {
	const question = `select count(*) from kubecdc.positions where resource_version <> '' and resource_version::numeric >= $1::text::numeric`
	for {
		n := 0
		// Until the exporter has made the table this is an error.
		_ = e.database.QueryRow(ctx, question, strconv.FormatUint(version, 10)).Scan(&n)
		if n >= streams {
			return nil
		}
		if _, err := e.usage(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return e.failed(fmt.Sprintf("has %d of %d streams at resourceVersion %d", n, streams, version))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// allocations is how often the exporter has allocated, from its metrics.
func (e *exporter) allocations() float64 {
	response, err := http.Get("http://" + e.listen + "/metrics")
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	for s := bufio.NewScanner(response.Body); s.Scan(); {
		if text, ok := strings.CutPrefix(s.Text(), "go_memstats_mallocs_total "); ok {
			n, _ := strconv.ParseFloat(text, 64)
			return n
		}
	}
	return 0
}

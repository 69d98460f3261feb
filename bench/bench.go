package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"kubecdc/bench/peers"
	"kubecdc/test/servers"
)

// plan says what is measured.
type plan struct {
	only    *regexp.Regexp
	profile string
	scale   float64
	times   int
	peers   bool // those too that need more than Go and what is at hand
}

// bench is one run: the servers, and what was built.
type bench struct {
	plan     plan
	dir      string
	kafka    *servers.Kafka
	postgres *servers.Postgres
	registry *servers.Registry // the registry for the rows in Avro, or nil before them
	table    *table
	row      string // the one that is measured
	runs     int
}

// rowLimit ends a row. A peer's first row builds it, which takes long.
const rowLimit = 15 * time.Minute

func run(ctx context.Context, out io.Writer, p plan) error {
	b := &bench{plan: p, table: &table{out: out}}
	defer servers.StopAll()
	if err := b.prepare(ctx); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.table.title()
	var failed []error
	for _, r := range slices.Repeat(rowsOf(p), p.times) {
		if !p.only.MatchString(r.name) || ctx.Err() != nil {
			continue
		}
		started := time.Now()
		results, err := b.measure(ctx, r)
		fmt.Fprintf(os.Stderr, "%s took %s\n", r.name, time.Since(started).Round(time.Second))
		if missing, ok := errors.AsType[peers.Absent](err); ok {
			results = []result{{name: r.name, remark: missing.Why}}
		} else if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", r.name, err))
			results = []result{{name: r.name, remark: "failed"}}
		}
		b.table.add(results)
	}
	b.table.ratios()
	return errors.Join(append(failed, ctx.Err())...)
}

func (b *bench) measure(ctx context.Context, r row) ([]result, error) {
	b.row = r.name
	ctx, cancel := context.WithTimeout(ctx, rowLimit)
	defer cancel()
	return r.measure(ctx, b)
}

func (b *bench) prepare(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "kubecdc-bench-"); err != nil {
		return err
	}
	if err := b.build(ctx); err != nil {
		return err
	}
	if b.kafka, err = servers.StartKafka(ctx, servers.KafkaOptions{}); err != nil {
		return err
	}
	b.postgres, err = servers.StartPostgres(ctx, servers.PostgresOptions{Fsync: true})
	return err
}

func (b *bench) file(name string) string { return filepath.Join(b.dir, name) }

// build builds the exporter as it is released, but for the hook that profiles it.
func (b *bench) build(ctx context.Context) error {
	args := []string{"build", "-trimpath", "-o", b.file("exporter")}
	if b.plan.profile != "" {
		args = append(args, "-tags", "profile")
		if err := os.MkdirAll(b.plan.profile, 0o755); err != nil {
			return err
		}
	}
	exporter := exec.CommandContext(ctx, "go", append(args, "kubecdc/cmd/exporter")...)
	exporter.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := exporter.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", exporter.Args, err, out)
	}
	return nil
}

// apiServer is the synthetic API server as a process.
type apiServer struct {
	*process
	kubeconfig string
	url        string
}

func (b *bench) startServer(ctx context.Context, args ...string) (*apiServer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b.runs++
	s := &apiServer{kubeconfig: b.file(fmt.Sprintf("kubeconfig%d", b.runs))}
	s.process, err = start(s.kubeconfig+".log", nil, self, append([]string{"serve", "-kubeconfig", s.kubeconfig}, args...)...)
	if err != nil {
		return nil, err
	}
	if err := s.await(ctx, "ready"); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return nil, err
	}
	s.url = config.Host
	return s, nil
}

// do asks the server to make something happen in all collections, or in the first n. It returns the version that this leads to.
func (s *apiServer) do(ctx context.Context, what string, n int, streams ...int) (uint64, error) {
	url := fmt.Sprintf("%s/bench/%s?n=%d", s.url, what, n)
	if len(streams) > 0 {
		url += fmt.Sprintf("&streams=%d", streams[0])
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return 0, err
	}
	response, err := insecure.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return 0, errors.Join(err, fmt.Errorf("%s: %s", what, response.Status))
	}
	return strconv.ParseUint(string(body), 10, 64)
}

// insecure trusts the server that was just started.
var insecure = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

func (b *bench) scaled(n int) int { return max(1, int(float64(n)*b.plan.scale)) }

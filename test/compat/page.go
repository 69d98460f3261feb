package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/twmb/franz-go/pkg/kgo"
	"k8s.io/client-go/kubernetes"
)

//go:embed page.md.tmpl
var pageText string

// page is what the template shows.
type page struct {
	Date, Kubernetes, Kafka string
	Logs                    []logRow
	Rows, Codecs            []clientRow
	Failures                []failure
}

// logRow is what a log had when it was read.
type logRow struct {
	Log                          topics
	Records, Tombstones, Aborted int
	Want                         digest
}

type clientRow struct {
	Title, Version, Needs string
	Cells                 []string
}

type failure struct{ Title, Reason string }

// count adds a log's records to the page.
func (t *trial) count(ctx context.Context, log topics) error {
	committed, err := t.records(ctx, log, kgo.ReadCommitted())
	if err != nil {
		return err
	}
	all, err := t.records(ctx, log, kgo.ReadUncommitted())
	if err != nil {
		return err
	}
	counted := logRow{Log: log, Records: len(committed), Aborted: len(all) - len(committed), Want: digestOf(wholeObjects(resources...)(t.live))}
	for _, r := range committed {
		if r.Value == nil {
			counted.Tombstones++
		}
	}
	say("%s.*, %s: %d records, %d tombstones, %d aborted", log.Prefix, log.State, counted.Records, counted.Tombstones, counted.Aborted)
	t.logs = append(t.logs, counted)
	return nil
}

func (t *trial) writePage(ctx context.Context, path string) error {
	p := page{Date: t.began.Format("2 January 2006"), Kafka: kafkaVersion(t.kafka.Dir), Logs: t.logs}
	client, err := kubernetes.NewForConfig(t.kube.Config)
	if err != nil {
		return err
	}
	server, err := client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("ask for the API server's version: %w", err)
	}
	p.Kubernetes = server.GitVersion
	for i := range t.consumers {
		c := &t.consumers[i]
		row := clientRow{Title: c.title, Version: t.versions[c.name], Needs: c.needs}
		codecs := clientRow{Title: c.title}
		for _, log := range []topics{plain, compacted, forgetful, resumption} {
			row.Cells = append(row.Cells, t.cell(c, log, log == resumption))
		}
		for _, log := range codecLogs {
			codecs.Cells = append(codecs.Cells, t.codecCell(c, log))
		}
		p.Rows = append(p.Rows, row)
		if c.codecs {
			p.Codecs = append(p.Codecs, codecs)
		}
		if c.failure != "" {
			p.Failures = append(p.Failures, failure{c.title, c.failure})
		}
	}
	var b bytes.Buffer
	if err := template.Must(template.New("page").Parse(pageText)).Execute(&b, p); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// outcome returns what came of a reading; nil if there was none.
func (t *trial) outcome(c *consumer, log topics, resumed bool) *outcome {
	i := slices.IndexFunc(t.outcomes, func(o outcome) bool {
		return o.consumer == c && o.log.State == log.State && o.resumed == resumed && (log.State != "" || o.log == log)
	})
	if i < 0 {
		return nil
	}
	return &t.outcomes[i]
}

func (t *trial) cell(c *consumer, log topics, resumed bool) string {
	o := t.outcome(c, log, resumed)
	switch {
	case o == nil:
		return "–"
	case o.right():
		return fmt.Sprintf("✓ %d, `%s`, %.0f s", o.got.Count, o.got.Hash, o.took.Seconds())
	case o.err != nil:
		return "**fails**"
	}
	return fmt.Sprintf("**wrong**: %s; the cluster has %s", o.got, o.want)
}

func (t *trial) codecCell(c *consumer, log topics) string {
	switch o := t.outcome(c, log, false); {
	case o == nil:
		return "–"
	case o.right():
		return "✓"
	case o.err != nil:
		return "no"
	}
	return "**wrong**"
}

// kafkaVersion is in the name of the broker's jar.
func kafkaVersion(instance string) string {
	found, _ := filepath.Glob(filepath.Join(instance, "..", "..", "kafka-*", "libs", "kafka_*.jar"))
	if len(found) == 0 {
		return "?"
	}
	_, version, _ := strings.Cut(strings.TrimSuffix(filepath.Base(found[len(found)-1]), ".jar"), "-")
	return version
}

// firstLine is the first line of a text.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// gist is the line of a program's complaints that says most: the last cause of a Java trace, the last error, or the last line.
func gist(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, mark := range []string{"Caused by: ", "Error: ", ""} {
		for _, line := range slices.Backward(lines) {
			if strings.Contains(line, mark) {
				return line
			}
		}
	}
	return ""
}

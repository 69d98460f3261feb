package compat

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"k8s.io/client-go/kubernetes"
)

//go:embed page.md.tmpl
var pageText string

// results are what came of the last run of each consumer: a run of some of them leaves the others' as they are.
type results struct {
	Kubernetes, Kafka string
	Logs              []logRow
	Clients           map[string]clientRow // by the consumer's name
}

// logRow is what a log had when it was read.
type logRow struct {
	Log                                   topics
	Records, Tombstones, Aborted, Objects int
}

// clientRow is a row of the tables of the page.
type clientRow struct {
	Title, Needs, Failure string `json:"-"`
	Date, Version         string
	Cells, Codecs         []string
}

// states are the states of the topics that a consumer reads, in the order of its cells. The last cell is of a reading that was resumed.
var states = []topics{plain, compacted, forgetful}

// Reads returns ✓, or each state of the topics that was not read right.
func (c clientRow) Reads() string {
	var failed []string
	for i, state := range states {
		if cell := c.Cells[i]; cell != "✓" && cell != "–" {
			failed = append(failed, state.State+": "+cell)
		}
	}
	return cmp.Or(strings.Join(failed, "; "), "✓")
}

// Resumed returns how the topics were read by a program that had been stopped.
func (c clientRow) Resumed() string { return c.Cells[len(states)] }

// count adds a log's records to the page.
func (t *trial) count(ctx context.Context, log topics) error {
	committed, err := t.reading(log).Records(ctx)
	if err != nil {
		return err
	}
	uncommitted := t.reading(log)
	uncommitted.Uncommitted = true
	all, err := uncommitted.Records(ctx)
	if err != nil {
		return err
	}
	counted := logRow{Log: log, Records: len(committed), Aborted: len(all) - len(committed),
		Objects: len(completeObjects(pods, configmaps)(t.live))}
	for _, r := range committed {
		if r.Value == nil {
			counted.Tombstones++
		}
	}
	say("%s.*, %s: %d records, %d tombstones, %d aborted", log.Prefix, log.State,
		counted.Records, counted.Tombstones, counted.Aborted)
	t.logs = append(t.logs, counted)
	return nil
}

func readResults(file string) (r results, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("read %s: %w", file, err)
	}
	return r, nil
}

// writePage puts this run's results in place of those of earlier runs, and writes the page.
func (t *trial) writePage(ctx context.Context, page, file string) error {
	r, err := readResults(file)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(t.kube.Config)
	if err != nil {
		return err
	}
	server, err := client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("ask for the API server's version: %w", err)
	}
	r.Kubernetes, r.Kafka, r.Logs = server.GitVersion, kafkaVersion(t.kafka.Dir), t.logs
	for i := range t.consumers {
		if c := &t.consumers[i]; t.outcome(c, plain, false) != nil {
			r.Clients[c.name] = t.rowOf(c)
		}
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	former, err := os.ReadFile(page)
	return errors.Join(err, os.WriteFile(file, append(text, '\n'), 0o644), os.WriteFile(page, []byte(pageOf(r, former)), 0o644))
}

func (t *trial) rowOf(c *consumer) clientRow {
	row := clientRow{Date: t.began.Format(time.DateOnly), Version: t.versions[c.name]}
	for _, log := range states {
		row.Cells = append(row.Cells, t.cell(c, log, false))
	}
	row.Cells = append(row.Cells, t.cell(c, resumption, true))
	if c.codecs {
		for _, log := range codecLogs {
			row.Codecs = append(row.Codecs, t.codecCell(c, log))
		}
	}
	return row
}

// pageOf has the consumers in the order of the list, without those that were never run. What comes before them is of the former page.
func pageOf(r results, former []byte) string {
	var rows []clientRow
	var dates []string
	for _, c := range consumers {
		if row, ok := r.Clients[c.name]; ok {
			row.Title, row.Needs, row.Failure = c.title, c.needs, c.failure
			rows, dates = append(rows, row), append(dates, row.Date)
		}
	}
	const mark = "<!-- make compat writes what follows -->\n"
	recipes, _, _ := strings.Cut(string(former), mark)
	var b strings.Builder
	b.WriteString(recipes + mark)
	data := map[string]any{"Kubernetes": r.Kubernetes, "Kafka": r.Kafka, "Rows": rows, "Codecs": codecsOf(rows),
		"First": slices.Min(dates), "Last": slices.Max(dates)}
	if err := template.Must(template.New("page").Parse(pageText)).Execute(&b, data); err != nil {
		panic(err) // the template is in this package
	}
	return b.String()
}

// codecsOf returns a row for all clients that read the same codecs: their titles, and a cell for each codec.
func codecsOf(clients []clientRow) (rows [][]string) {
	for _, c := range clients {
		if len(c.Codecs) == 0 {
			continue
		}
		i := slices.IndexFunc(rows, func(row []string) bool { return slices.Equal(row[1:], c.Codecs) })
		if i < 0 {
			rows = append(rows, append([]string{c.Title}, c.Codecs...))
		} else {
			rows[i][0] += "; " + c.Title
		}
	}
	return rows
}

// outcome returns the result of a reading, or nil if there was none.
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
	case o.right() && o.deleted > 0:
		return fmt.Sprintf("**keeps %d deleted**", o.deleted)
	case o.right():
		return "✓"
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
	return versionOfJar(filepath.Join(instance, "..", "..", "kafka-*", "libs", "kafka_2.13"))
}

// versionOfJar is in the jar's name, after its path's beginning.
func versionOfJar(beginning string) string {
	found, _ := filepath.Glob(beginning + "-*.jar")
	if len(found) == 0 {
		return "?"
	}
	jar := filepath.Base(found[len(found)-1])
	return strings.TrimSuffix(strings.TrimPrefix(jar, filepath.Base(beginning)+"-"), ".jar")
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

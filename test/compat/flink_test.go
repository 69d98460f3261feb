package compat

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"kubecdc/test/child"
)

const (
	flinkTitle   = "Flink SQL"
	flinkColumns = "metadata.uid,metadata.labels,spec.nodeName,status.phase" // the recipe's
)

// The statements are what `exporter schema` prints, and docs/consumers.md shows them.
var flinkConsumers = []consumer{
	{name: "flink", codecs: true, title: flinkTitle + ", `debezium-json`", needs: "before-images", resumes: true, skips: true,
		install: installFlink, expect: podColumns, read: flink("flink", "pods", "", "SELECT * FROM pods")},
	{name: "flink-upsert", title: flinkTitle + ", `upsert-kafka`", resumes: true,
		install: installFlink, expect: podColumns, read: flink("flink-upsert", "pods_log", "", "SELECT * FROM pods")},
	{name: "flink-count", few: true, title: flinkTitle + ", the recipe's count", needs: "before-images", resumes: true,
		skips:   true,
		install: installFlink, expect: runningPods, read: flink("flink", "pods", "",
			"SELECT spec.nodeName AS node, count(*) AS pods FROM pods WHERE status.phase = 'Running' GROUP BY spec.nodeName")},
	{name: "flink-metadata", few: true, title: flinkTitle + ", metadata columns", needs: "before-images",
		install: installFlink, expect: podColumns, read: flink("flink", "pods", metadataColumns,
			"SELECT cluster, namespace, name, metadata, spec, status FROM pods WHERE db = cluster AND `schema` = namespace "+
				"AND `table` = 'pods' AND happened <= seen AND origin['kind'] = 'Pod' AND origin['uid'] = metadata.uid")},
	{name: "flink-types", few: true, title: flinkTitle + ", `debezium-json`, members whose types have changed", needs: "before-images",
		install: installFlink, expect: drifted, read: flinkDrifted("flink", "")},
	{name: "flink-upsert-types", few: true, title: flinkTitle + ", `upsert-kafka`, members whose types have changed",
		install: installFlink, expect: drifted, read: flinkDrifted("flink-upsert", "_log")},
	{name: "flink-avro", prefix: inAvro.Prefix, title: flinkTitle + ", `debezium-avro-confluent`",
		needs: "before-images, " + needsAvro, resumes: true, skips: true,
		install: installFlinkAvro, expect: podColumns, read: flink("flink", "pods", "", "SELECT * FROM pods")},
	{name: "flink-avro-upsert", prefix: inAvro.Prefix, title: flinkTitle + ", `upsert-kafka` with `avro-confluent`",
		needs: needsAvro, resumes: true,
		install: installFlinkAvro, expect: podColumns, read: flink("flink-upsert", "pods_log", "", "SELECT * FROM pods")},
	{name: "flink-objects", prefix: asObjects.Prefix, title: flinkTitle + ", `upsert-kafka`, objects alone",
		needs: "`KUBECDC_ENCODING=object`: [statement](encodings.md#object)", resumes: true,
		install: installFlink, expect: podColumns, read: flink("flink-upsert", "pods", "", "SELECT * FROM pods")},
	flinkWho,
}

const needsAvro = "`KUBECDC_ENCODING=avro`: [statement](encodings.md#avro-consumers)"

const metadataColumns = "ALTER TABLE pods ADD (seen TIMESTAMP_LTZ(3) METADATA FROM 'value.ingestion-timestamp' VIRTUAL, " +
	"happened TIMESTAMP_LTZ(3) METADATA FROM 'value.source.timestamp' VIRTUAL, " +
	"db STRING METADATA FROM 'value.source.database' VIRTUAL, " +
	"`schema` STRING METADATA FROM 'value.source.schema' VIRTUAL, `table` STRING METADATA FROM 'value.source.table' VIRTUAL, " +
	"origin MAP<STRING, STRING> METADATA FROM 'value.source.properties' VIRTUAL);\n"

// podColumns are the rows of the recipe's table.
func podColumns(live objects) (rows []row) {
	for _, pod := range live[pods] {
		r := keyOf(pod)
		r["metadata"] = object{"uid": field(pod, "metadata", "uid"), "labels": field(pod, "metadata", "labels")}
		r["spec"] = object{"nodeName": field(pod, "spec", "nodeName")}
		r["status"] = object{"phase": field(pod, "status", "phase")}
		rows = append(rows, r)
	}
	return rows
}

// runningPods are the rows of the recipe's query.
func runningPods(live objects) (rows []row) {
	count := map[any]int{}
	for _, pod := range live[pods] {
		if field(pod, "status", "phase") == "Running" {
			count[field(pod, "spec", "nodeName")]++
		}
	}
	for node, n := range count {
		rows = append(rows, object{"node": node, "pods": n})
	}
	return rows
}

var flinkLibs, flinkProgram, flinkAvroLibs string

// installFlink also compiles the program: Flink loads the classes of a job by name, which those that java compiles do not have.
func installFlink(ctx context.Context, base string) (version string, err error) {
	if flinkLibs, err = jars(ctx, base, "flink"); err != nil {
		return "", err
	}
	flinkProgram, err = installed(base, "flink-program", read("java/Flink.java"), func(dir string) error {
		path := filepath.Join(dir, "Flink.java")
		if err := os.WriteFile(path, []byte(read("java/Flink.java")), 0o644); err != nil {
			return err
		}
		_, err := output(ctx, dir, nil, "javac", "-d", dir, "-cp", flinkLibs+"/*", path)
		return err
	})
	return pinned("flink", "flink-clients") + ", connector " + pinned("flink", "flink-sql-connector-kafka"), err
}

func installFlinkAvro(ctx context.Context, base string) (version string, err error) {
	if flinkAvroLibs, err = jars(ctx, base, "flink-avro"); err != nil {
		return "", err
	}
	return installFlink(ctx, base)
}

// flink runs the statements that the exporter prints, and a query.
func flink(dialect, table, more, query string) func(context.Context, reading) ([]row, error) {
	return func(ctx context.Context, r reading) ([]row, error) {
		statements, err := r.schema(ctx, dialect, "pods", "--columns", flinkColumns)
		if err != nil {
			return nil, err
		}
		libs := []string{flinkLibs}
		if r.log.Prefix == inAvro.Prefix {
			libs = append(libs, flinkAvroLibs)
		}
		return r.flink(ctx, statements+";\n"+more, table, query, append(libs, flinkProgram)...)
	}
}

// flink runs statements and a query with all jars of some folders. A reading with a state is a job that is stopped with a savepoint. Any
// other reading ends at the end of the topic.
func (r reading) flink(ctx context.Context, statements, table, query string, libs ...string) ([]row, error) {
	if !r.resumed {
		statements += fmt.Sprintf("ALTER TABLE %s SET ('scan.bounded.mode' = 'latest-offset');\n", table)
	}
	path, err := r.place("statements.sql", statements+query+";\n")
	if err != nil {
		return nil, err
	}
	if r.resumed {
		return r.untilRight(ctx, exec.Command("java", javaArgs(r, libs, "Flink", path, r.dir)...))
	}
	out, err := java(ctx, r, libs, "Flink", path)
	if err != nil {
		return nil, err
	}
	return parseRows([]byte(strings.TrimSpace(string(out))))
}

// schema is what `exporter schema` prints for a topic of the reading.
func (r reading) schema(ctx context.Context, dialect, resource string, more ...string) (string, error) {
	args := append([]string{"schema", resource, "--as", dialect}, more...)
	out, err := output(ctx, r.dir, env(r.t.settings(r.log)), r.t.binary, args...)
	return string(out), err
}

// untilRight reads the tables that a job prints until one of them is right, and then has the job end.
func (r reading) untilRight(ctx context.Context, cmd *exec.Cmd) (rows []row, err error) {
	var complaints strings.Builder
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	cmd.Stderr = &complaints
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, err
	}
	job, err := child.Start(cmd)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, job.Kill)()
	rows, err = lastTable(out, func(table []row) bool {
		right := digestOf(table) == r.want
		if right {
			_, err = io.WriteString(in, "stop\n")
		}
		return right
	})
	if err := errors.Join(err, job.Wait()); err != nil {
		return rows, fmt.Errorf("%w: the last table had %s: %s", err, digestOf(rows), gist(complaints.String()))
	}
	return rows, nil
}

// lastTable reads tables, each with an empty line after it, until one is enough.
func lastTable(out io.Reader, enough func([]row) bool) (last []row, err error) {
	var table strings.Builder
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if lines.Text() != "" {
			table.WriteString(lines.Text() + "\n")
			continue
		}
		if last, err = parseRows([]byte(table.String())); err != nil || enough(last) {
			return last, err
		}
		table.Reset()
	}
	return last, lines.Err()
}

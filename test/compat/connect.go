package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"kubecdc/test/servers"
)

const jdbcColumns = "metadata.uid,metadata.resourceVersion,spec.nodeName,status.phase"

var connectConsumers = []consumer{
	{name: "jdbc", codecs: true, title: "Kafka Connect, Debezium's JDBC sink", needs: "`schema.content`, see [recipes.md](recipes.md)", resumes: true,
		install: installConnect, expect: flatPods, read: jdbc},
}

// flatPods are the rows of the table in the sink's database.
func flatPods(live objects) (rows []row) {
	for _, pod := range live[pods.Resource] {
		r := keyOf(pod)
		for _, path := range strings.Split(jdbcColumns, ",") {
			r[strings.ReplaceAll(path, ".", "_")] = field(pod, strings.Split(path, ".")...)
		}
		rows = append(rows, r)
	}
	return rows
}

var connectLibs, debeziumLibs string

func installConnect(ctx context.Context, base string) (version string, err error) {
	if connectLibs, err = jars(ctx, base, "connect"); err != nil {
		return "", err
	}
	debeziumLibs, err = jars(ctx, base, "debezium-jdbc")
	return pinned("connect", "connect-runtime") + ", Debezium " + pinned("debezium-jdbc", "debezium-connector-jdbc"), err
}

// jdbc runs a standalone worker until the table in Postgres is right. The connector's properties are what the exporter prints, and
// the recipe's.
func jdbc(ctx context.Context, r reading) ([]row, error) {
	schema, err := r.schema(ctx, "connect", jdbcColumns)
	if err != nil {
		return nil, err
	}
	table := strings.NewReplacer("-", "_", " ", "_", ",", "").Replace(filepath.Base(r.dir))
	listen, err := servers.FreeAddress()
	if err != nil {
		return nil, err
	}
	plugins := filepath.Join(r.dir, "plugins")
	if err := os.MkdirAll(plugins, 0o755); err != nil {
		return nil, err
	}
	if err := os.Symlink(debeziumLibs, filepath.Join(plugins, "debezium-jdbc")); err != nil && !os.IsExist(err) {
		return nil, err
	}
	worker := strings.NewReplacer("/opt/connect-plugins", plugins, "/var/lib/connect/offsets", filepath.Join(r.dir, "offsets")).
		Replace(read("connect/worker.properties")) + "listeners=http://" + listen + "\n"
	connector := strings.NewReplacer("jdbc:postgresql://db.example.com/warehouse", "jdbc:postgresql://"+r.t.sql.Address+"/kubecdc",
		"connection.username=warehouse", "connection.username=kubecdc", "connection.password=secret", "connection.password=secret-pw",
		"name=pods", "name="+table, "format=pods", "format="+table).Replace(read("connect/jdbc.properties"))
	workerPath, err := r.place("worker.properties", worker)
	if err != nil {
		return nil, err
	}
	connectorPath, err := r.place("pods.properties", schema+connector)
	if err != nil {
		return nil, err
	}
	p, err := start(r.dir, nil, "java", javaArgs(r, []string{connectLibs}, "org.apache.kafka.connect.cli.ConnectStandalone", workerPath, connectorPath)...)
	if err != nil {
		return nil, err
	}
	rows, err := r.awaitTable(ctx, p, table)
	if err != nil {
		p.Kill()
		return rows, fmt.Errorf("%w: the table had %s: %s", err, digestOf(rows), gist(p.errors.String()))
	}
	return rows, p.stop(ctx)
}

// awaitTable polls the table until it is right, or the worker reports that its task has failed.
func (r reading) awaitTable(ctx context.Context, p *program, table string) (rows []row, err error) {
	db, err := pgx.Connect(ctx, r.t.sql.URL)
	if err != nil {
		return nil, err
	}
	defer db.Close(context.WithoutCancel(ctx))
	err = await(ctx, "the table "+table, func() (bool, error) {
		var text string
		err := db.QueryRow(ctx, `select coalesce(string_agg(row_to_json(t)::text, E'\n'), '') from `+pgx.Identifier{table}.Sanitize()+` t`).Scan(&text)
		if err != nil {
			return false, p.failed()
		}
		if rows, err = parseRows([]byte(text)); err != nil {
			return false, err
		}
		return digestOf(rows) == r.want, p.failed()
	})
	return rows, err
}

// failed is an error once the worker has ended, or has given a task up.
func (p *program) failed() error {
	if !p.Running() || strings.Contains(p.errors.String(), "Task is being killed") {
		return fmt.Errorf("the sink has failed")
	}
	return nil
}

package compat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"kubecdc/test/servers"
)

const jdbcColumns = "metadata.uid,metadata.resourceVersion,spec.nodeName,status.phase"

var connectConsumers = []consumer{
	{name: "jdbc", title: "Kafka Connect, Debezium's JDBC sink",
		needs:   "`schema.content`, transforms: [recipe](#kafka-connect-with-a-jdbc-sink)",
		resumes: true, install: installConnect("connect"), expect: flatPods, read: flatRows},
	{name: "jdbc-schema", prefix: "schema", title: "the same, with an older Kafka Connect",
		needs:   "`KUBECDC_ENCODING=debezium-schema`",
		resumes: true, install: installConnect("connect-4.1"), expect: podRows, read: rowsOfRecords},
	{name: "jdbc-avro", prefix: inAvro.Prefix, title: "Kafka Connect, Confluent's AvroConverter, Debezium's JDBC sink",
		needs:   "`KUBECDC_ENCODING=avro`, transforms: [recipe](#kafka-connect-with-avro)",
		resumes: true, install: installConverter("confluent-avro", "META-INF/bundled-dependencies/kafka-connect-avro-converter"),
		expect: avroPods, read: avroRows("confluent-avro")},
	{name: "jdbc-apicurio", prefix: inAvro.Prefix, title: "the same, with Apicurio's AvroConverter",
		needs:   "`KUBECDC_ENCODING=avro`, transforms: [recipe](#kafka-connect-with-avro)",
		install: installConverter("apicurio-avro", "apicurio-registry-utils-converter"),
		expect:  avroPods, read: avroRows("apicurio-avro")},
}

// flatPods are the rows of the table that flat records make. The sink quotes no names, so Postgres has them in lower case.
func flatPods(live objects) (rows []row) {
	for _, pod := range live[pods] {
		r := keyOf(pod)
		for path := range strings.SplitSeq(jdbcColumns, ",") {
			r[strings.ToLower(strings.ReplaceAll(path, ".", "_"))] = field(pod, strings.Split(path, ".")...)
		}
		rows = append(rows, r)
	}
	return rows
}

// podRows are the rows of the table that records of debezium-schema make: the object is in a column.
func podRows(live objects) (rows []row) {
	for _, pod := range live[pods] {
		r := keyOf(pod)
		r["uid"], r["resource_version"] = field(pod, "metadata", "uid"), field(pod, "metadata", "resourceVersion")
		r["api_version"], r["kind"], r["object"] = "v1", "Pod", pod
		rows = append(rows, r)
	}
	return rows
}

// avroPods are the rows of the table that the columns of Avro's records make.
func avroPods(live objects) (rows []row) {
	for _, pod := range live[pods] {
		r := keyOf(pod)
		for path := range strings.SplitSeq(jdbcColumns, ",") {
			outer, inner, _ := strings.Cut(path, ".")
			r[strings.ToLower(inner)] = field(pod, outer, inner)
		}
		rows = append(rows, r)
	}
	return rows
}

var (
	connectLibs   = map[string]string{}
	debeziumLibs  string
	converterLibs = map[string]string{}
	nestedLibs    string
	errSinkFailed = errors.New("the sink has failed")
)

func installConnect(name string) func(ctx context.Context, base string) (version string, err error) {
	return func(ctx context.Context, base string) (version string, err error) {
		if connectLibs[name], err = jars(ctx, base, name); err != nil {
			return "", err
		}
		debeziumLibs, err = jars(ctx, base, "debezium-jdbc")
		return pinned(name, "connect-runtime") + ", Debezium " + pinned("debezium-jdbc", "debezium-connector-jdbc"), err
	}
}

// installConverter installs an AvroConverter, whose jar's name begins as given, the newer Kafka Connect, and a transform for
// nested fields.
func installConverter(name, jar string) func(ctx context.Context, base string) (version string, err error) {
	return func(ctx context.Context, base string) (version string, err error) {
		if version, err = installConnect("connect")(ctx, base); err != nil {
			return "", err
		}
		if nestedLibs, err = jars(ctx, base, "nested-field"); err != nil {
			return "", err
		}
		if converterLibs[name], err = jars(ctx, base, name); err != nil {
			return "", err
		}
		return version + ", AvroConverter " + versionOfJar(filepath.Join(converterLibs[name], jar)), nil
	}
}

// flatRows gives the connector what the exporter prints, and the recipe's properties.
func flatRows(ctx context.Context, r reading) ([]row, error) {
	schema, err := r.schema(ctx, "connect", "pods", "--columns", jdbcColumns)
	if err != nil {
		return nil, err
	}
	return r.sink(ctx, connectLibs["connect"], schema+read("connect/jdbc.properties")+read("connect/flat.properties"))
}

// rowsOfRecords needs no transform, since the records are rows.
func rowsOfRecords(ctx context.Context, r reading) ([]row, error) {
	properties, err := r.schema(ctx, "connect", "pods")
	if err != nil {
		return nil, err
	}
	return r.sink(ctx, connectLibs["connect-4.1"], properties+read("connect/jdbc.properties"))
}

// avroRows gives the connector the properties of a converter, and those that choose columns.
func avroRows(converter string) func(context.Context, reading) ([]row, error) {
	return func(ctx context.Context, r reading) ([]row, error) {
		properties := read("connect/"+converter+".properties") + read("connect/jdbc.properties") + read("connect/columns.properties")
		return r.sink(ctx, connectLibs["connect"], properties, converterLibs[converter], nestedLibs)
	}
}

// sink runs a standalone worker with one connector until the table in Postgres is right. Plugins are what the connector needs in
// addition to the sink.
func (r reading) sink(ctx context.Context, libs, properties string, plugins ...string) ([]row, error) {
	table := plainName.Replace(filepath.Base(r.dir))
	listen, err := servers.FreeAddress()
	if err != nil {
		return nil, err
	}
	pluginPath := filepath.Join(r.dir, "plugins")
	if err := os.MkdirAll(pluginPath, 0o755); err != nil {
		return nil, err
	}
	for _, dir := range append(plugins, debeziumLibs) {
		if err := os.Symlink(dir, filepath.Join(pluginPath, filepath.Base(dir))); err != nil && !os.IsExist(err) {
			return nil, err
		}
	}
	worker := strings.NewReplacer("/opt/connect-plugins", pluginPath, "/var/lib/connect/offsets", filepath.Join(r.dir, "offsets")).
		Replace(read("connect/worker.properties")) + "listeners=http://" + listen + "\n"
	connector := strings.NewReplacer("jdbc:postgresql://db.example.com/warehouse", "jdbc:postgresql://"+r.t.sql.Address+"/kubecdc",
		"connection.username=warehouse", "connection.username=kubecdc", "connection.password=secret", "connection.password=secret-pw",
		"name=pods", "name="+table, "format=pods", "format="+table).Replace(properties)
	workerPath, err := r.place("worker.properties", worker)
	if err != nil {
		return nil, err
	}
	connectorPath, err := r.place("pods.properties", connector)
	if err != nil {
		return nil, err
	}
	args := javaArgs(r, []string{libs}, "org.apache.kafka.connect.cli.ConnectStandalone", workerPath, connectorPath)
	p, err := start(r.dir, nil, "java", args...)
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

// awaitTable polls the table until it is right, or the sink has failed.
func (r reading) awaitTable(ctx context.Context, p *program, table string) (rows []row, err error) {
	db, err := pgx.Connect(ctx, r.t.sql.URL)
	if err != nil {
		return nil, err
	}
	defer db.Close(context.WithoutCancel(ctx))
	query := `select coalesce(string_agg(row_to_json(t)::text, E'\n'), '') from ` + pgx.Identifier{table}.Sanitize() + ` t`
	err = servers.Until(ctx, "the table "+table, func() (bool, error) {
		if !p.Running() || strings.Contains(p.errors.String(), "Task is being killed") {
			return false, errSinkFailed
		}
		var text string
		if db.QueryRow(ctx, query).Scan(&text) != nil {
			return false, nil // the sink has not made the table yet
		}
		var err error
		rows, err = parseRows([]byte(text))
		return digestOf(rows) == r.want, err
	})
	return rows, err
}

package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/config"
	"kubecdc/internal/dependency"
	"kubecdc/internal/pgdb"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/sinks/postgres"
	"kubecdc/sinks/sqlite"
	"kubecdc/sinks/stdout"
)

// sinkTable has every sink that KUBECDC_SINK can name. docs/adding-a-sink.md explains how to add one.
var sinkTable = []SinkEntry{
	{Kind: sqlite.Kind, open: openSQLite, read: readSQLite, clusters: clustersOfFiles},
	{Kind: kafka.Kind, open: openKafka, read: readKafka, clusters: clustersOfMirror,
		address: func(c *config.Config) string { return "kafka " + c.Kafka.Brokers.String() },
		place:   func(c *config.Config) string { return "topics " + c.Kafka.TopicPrefix + ".*" },
		broker:  func(c *config.Config, cluster string) (*kafka.Sink, error) { return kafka.New(KafkaConfig(c, cluster)) }},
	{Kind: postgres.Kind, open: openPostgres, read: readPostgres, clusters: clustersOfPostgres,
		address: func(c *config.Config) string { return c.Sink.Postgres.String() }, database: postgresDatabase},
	{Kind: stdout.Kind, open: openStdout},
}

// SinkEntry is a sink: its properties, and how it is opened.
type SinkEntry struct {
	sinks.Kind
	open func(context.Context, *config.Config, *Cluster, SinkHelp) (sinks.Sink, error)
	// read opens a reader of a cluster's log. It is nil if the sink can't be read back.
	read func(ctx context.Context, c *config.Config, cluster string) (sinks.ReadCloser, error)
	// clusters returns the clusters of the log, or of all logs in their default place. Their logs are read with the settings that
	// it leaves in c. It is nil if the sink can't be read back.
	clusters func(ctx context.Context, c *config.Config) ([]string, error)
	// address is the address of its server, and place is the place of the log on it, both without passwords. Both may be nil.
	address, place func(*config.Config) string
	// broker makes the sink as a broker of topics and consumer groups. It is nil if the sink has neither.
	broker func(c *config.Config, cluster string) (*kafka.Sink, error)
	// database is the Postgres database that the sink writes to. It is nil if there is none.
	database func(*config.Config) pgdb.Options
}

// Readable reports whether the sink's log can be read back.
func (e SinkEntry) Readable() bool { return e.read != nil }

// Database returns how to connect to the sink's Postgres database, or false if it writes to none.
func (e SinkEntry) Database(c *config.Config) (pgdb.Options, bool) {
	if e.database == nil {
		return pgdb.Options{}, false
	}
	return e.database(c), true
}

// SinkOf returns the entry of the sink that the settings name.
func SinkOf(c *config.Config) SinkEntry {
	for _, e := range sinkTable {
		if e.Name == c.Sink.Kind {
			return e
		}
	}
	panic("no sink is called " + c.Sink.Kind) // config allows only the table's sinks
}

// SinkHelp is what a sink gets from the exporter.
type SinkHelp struct {
	Log      *slog.Logger
	Observer sinks.Observer
	Pin      kafka.Pin
	Version  string           // the program's version
	Store    checkpoint.Store // nil if it is not open
	Show     stdout.Show      // which changes are shown on a terminal
	Spooled  bool             // there is a spool, so that nothing waits for the sink
}

// OpenSink opens the sink that the settings name, as a step of a start.
func OpenSink(ctx context.Context, start *dependency.Steps, c *config.Config, cluster *Cluster,
	help SinkHelp) (sinks.Sink, error) {
	step := dependency.Step{Awaited: "the sink", Dependency: dependency.Sink, Address: SinkAddress(c), Limit: OpenLimit}
	var sink sinks.Sink
	err := start.Do(ctx, step, func(ctx context.Context) (err error) {
		sink, err = SinkOf(c).open(ctx, c, cluster, help)
		return err
	})
	if err != nil {
		return nil, err
	}
	return sink, nil
}

func openStdout(_ context.Context, c *config.Config, cluster *Cluster, help SinkHelp) (sinks.Sink, error) {
	o := stdout.Options{Envelope: change.Envelope{Version: help.Version, Prefix: c.Kafka.TopicPrefix, Cluster: cluster.Cluster},
		Show: help.Show}
	if help.Show.Screen != nil {
		o.Out, o.Format = help.Show.Screen, stdout.Text
	}
	return stdout.New(o), nil
}

// openSQLite opens the log in the checkpoint's file. It uses the open file if there is one. On a terminal it prints the changes
// too.
func openSQLite(ctx context.Context, c *config.Config, cluster *Cluster, help SinkHelp) (sinks.Sink, error) {
	store, ok := help.Store.(*embedded)
	if !ok {
		return nil, errTwoPlaces
	}
	cache, _ := checkpointMemory(c, sqlite.Kind)
	sink, err := sqlite.New(ctx, store.File(), sqlite.Config{Cluster: cluster.Cluster, ClusterUID: cluster.Binding.ID,
		ClusterIDs: cluster.Binding.Known.IDs(), History: time.Duration(c.Sink.SQLiteHistory),
		MaxSize: int64(c.Sink.SQLiteMaxSize), Logger: help.Log,
		BodyCacheBytes: int(cache)})
	if err != nil || help.Show.Screen == nil {
		return sink, err
	}
	return stdout.WithLines(sink, help.Show), nil
}

// errTwoPlaces says that the log would be in another place than the checkpoint.
var errTwoPlaces = &config.Error{Problems: []config.Problem{{Setting: "KUBECDC_CHECKPOINT",
	What: "a database, and KUBECDC_SINK is sqlite, " +
		"which keeps log and checkpoint in one file", Fix: "set it to sqlite:PATH, or KUBECDC_SINK to kafka or postgres"}}}

func readSQLite(ctx context.Context, c *config.Config, cluster string) (sinks.ReadCloser, error) {
	path, err := c.SQLitePath(cluster)
	if err != nil {
		return nil, err
	}
	if path == "" {
		return nil, errTwoPlaces
	}
	reader, err := readFile(ctx, path, cluster)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w (there is no file %s), or set KUBECDC_CLUSTER and KUBECDC_CHECKPOINT as exporter run has them",
			&NoLogError{Cluster: cluster}, path)
	}
	if err != nil {
		return nil, err
	}
	return reader, nil
}

// readFile reads the log of a cluster in a file.
func readFile(ctx context.Context, path, cluster string) (*sqlite.Reader, error) {
	file, err := sqlitefile.Share(ctx, path)
	if err != nil {
		return nil, err
	}
	reader, err := sqlite.NewReader(ctx, file, cluster)
	if err != nil {
		file.Close()
		return nil, err
	}
	return reader, nil
}

func openPostgres(ctx context.Context, c *config.Config, cluster *Cluster, help SinkHelp) (sinks.Sink, error) {
	return postgres.Open(ctx, postgres.Config{URL: c.Sink.Postgres.Reveal(), PasswordFile: c.Sink.PasswordFile,
		Cluster:    cluster.Cluster,
		ClusterUID: cluster.Binding.ID, ClusterIDs: cluster.Binding.Known.IDs(), History: time.Duration(c.Sink.History),
		Logger: help.Log, Later: help.Spooled})
}

func postgresDatabase(c *config.Config) pgdb.Options {
	return pgdb.Options{URL: c.Sink.Postgres.Reveal(), PasswordFile: c.Sink.PasswordFile, Setting: "KUBECDC_SINK_POSTGRES",
		ReadOnly: true}
}

func readPostgres(ctx context.Context, c *config.Config, cluster string) (sinks.ReadCloser, error) {
	return postgres.OpenReader(ctx, postgres.Config{URL: c.Sink.Postgres.Reveal(), PasswordFile: c.Sink.PasswordFile,
		Cluster: cluster})
}

// SinkAddress returns the address of the sink's server, without passwords.
func SinkAddress(c *config.Config) string {
	e := SinkOf(c)
	if e.address == nil {
		return e.Name
	}
	return e.address(c)
}

// DescribeSink returns where changes are written, without passwords.
func DescribeSink(c *config.Config) string {
	if e := SinkOf(c); e.place != nil {
		return SinkAddress(c) + " " + e.place(c)
	}
	return SinkAddress(c)
}

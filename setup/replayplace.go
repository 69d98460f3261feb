package setup

import (
	"cmp"
	"context"
	"io"
	"strings"

	"kubecdc/change"
	"kubecdc/config"
	"kubecdc/internal/dependency"
	"kubecdc/internal/fault"
	"kubecdc/internal/sqlitefile"
	"kubecdc/replay"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/sinks/postgres"
	"kubecdc/sinks/sqlite"
)

// ReplayPlace is where a replay writes to: topics, a database or standard output.
type ReplayPlace struct {
	Prefix   string   // the prefix of the topics, or empty for the live log's prefix if there are brokers
	Brokers  []string // another Kafka cluster's
	Postgres string
	SQLite   string // the path of a file
	Stdout   bool
}

// Check returns a fault.Usage unless one place is named.
func (p *ReplayPlace) Check() error {
	named := 0
	for _, given := range []bool{p.topics(), p.Postgres != "", p.SQLite != "", p.Stdout} {
		if given {
			named++
		}
	}
	if named != 1 {
		return fault.Usagef("name one place to write to: --to-prefix (with --to-brokers for another Kafka), --to-postgres, " +
			"--to-sqlite or --to-stdout")
	}
	return nil
}

func (p *ReplayPlace) topics() bool { return p.Prefix != "" || len(p.Brokers) > 0 }

// String names the place, without passwords.
func (p *ReplayPlace) String() string {
	switch {
	case p.Postgres != "":
		return config.DSN(p.Postgres).String()
	case p.SQLite != "":
		return "sqlite:" + p.SQLite
	case p.Stdout:
		return "standard output"
	case len(p.Brokers) > 0:
		return "topics " + p.Prefix + ".* of kafka " + strings.Join(p.Brokers, ",")
	}
	return "topics " + p.Prefix + ".*"
}

// Resume returns the command that continues a replay, without passwords. For standard output it returns a sentence, since such
// a replay can't be continued.
func (p *ReplayPlace) Resume(id string) string {
	if p.Stdout {
		return "begin again, since standard output can't be read back"
	}
	command := "exporter replay --resume " + id
	for _, flag := range []struct{ name, value string }{{"prefix", p.Prefix}, {"brokers", strings.Join(p.Brokers, ",")},
		{"postgres", config.DSN(p.Postgres).String()}, {"sqlite", p.SQLite}} {
		if flag.value != "" {
			command += " --to-" + flag.name + " " + flag.value
		}
	}
	return command
}

// TopicOf returns the topic of a stream's records, if the place is topics. live is the prefix of the live log.
func (p *ReplayPlace) TopicOf(live string, stream change.StreamID) string {
	if !p.topics() {
		return ""
	}
	return change.TopicOf(cmp.Or(p.Prefix, live), stream)
}

// Open opens the place. live is the identity of the log that is read, and must not be written to. stdout gets the standard
// output.
func (p *ReplayPlace) Open(
	ctx context.Context, c *config.Config, cluster, live, version string, stdout io.Writer,
) (replay.Target, error) {
	switch {
	case p.Stdout:
		return replay.NewStream(stdout), nil
	case p.Postgres != "":
		return &replay.SinkTarget{Place: p.String(), Connect: func(ctx context.Context) (sinks.Sink, sinks.ReadCloser, error) {
			to := postgres.Config{URL: p.Postgres, Cluster: cluster}
			sink, err := postgres.Open(ctx, to)
			if err != nil {
				return nil, nil, err
			}
			reader, err := postgres.OpenReader(ctx, to)
			return sink, reader, err
		}}, nil
	case p.SQLite != "":
		return &replay.SinkTarget{Place: p.String(), Connect: func(ctx context.Context) (sinks.Sink, sinks.ReadCloser, error) {
			return connectFile(ctx, p.SQLite, cluster)
		}}, nil
	}
	to := KafkaConfig(c, cluster)
	to.History, to.Version, to.Delivery = 0, version, kafka.ExactlyOnce // replayed changes are not removed by age
	if len(p.Brokers) > 0 {
		to.Brokers = p.Brokers
	}
	if to.TopicPrefix = cmp.Or(p.Prefix, to.TopicPrefix); p.Prefix == "" && SinkOf(c).broker == nil {
		return nil, fault.Usagef("--to-prefix: name the prefix of the topics")
	}
	if len(to.Brokers) == 0 {
		return nil, fault.Usagef("--to-prefix: name the Kafka of the topics with --to-brokers, or set KUBECDC_KAFKA_BROKERS")
	}
	if err := to.Validate(); err != nil {
		return nil, fault.Usagef("--to-prefix, --to-brokers: %v", err)
	}
	return openReplayTopics(ctx, to, live)
}

// connectFile opens the file of a log as its owner. The reader closes the file.
func connectFile(ctx context.Context, path, cluster string) (sinks.Sink, sinks.ReadCloser, error) {
	file, err := sqlitefile.Own(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	sink, err := sqlite.New(ctx, file, sqlite.Config{Cluster: cluster})
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	reader, err := sqlite.NewReader(ctx, file, cluster)
	return sink, reader, err
}

func openReplayTopics(ctx context.Context, to kafka.Config, live string) (replay.Target, error) {
	target, err := kafka.NewReplay(to)
	if err != nil {
		return nil, err
	}
	var identity string
	step := dependency.Step{Awaited: "the Kafka to write to", Address: strings.Join(to.Brokers, ","), Limit: RequestLimit}
	err = dependency.Once(ctx, step, func(ctx context.Context) (err error) {
		identity, err = target.Identity(ctx)
		return err
	})
	if err == nil && overlap(identity, live) {
		err = fault.Usagef("the live log is %s, and a replay to %s would write into its topics: choose a prefix that is "+
			"no part of the live one", live, identity)
	}
	if err != nil {
		target.Close()
		return nil, err
	}
	return target, nil
}

// overlap reports whether two logs, as kafka.Sink.Identity names them, have topics in common.
func overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}

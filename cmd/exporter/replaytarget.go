package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"kubecdc/change"
	"kubecdc/config"
	"kubecdc/internal/plain"
	"kubecdc/internal/startup"
	"kubecdc/replay"
	"kubecdc/setup"
	"kubecdc/sinks/kafka"
	"kubecdc/sinks/postgres"
)

// targetFlags say where a replay writes to.
type targetFlags struct {
	prefix, postgres, file string
	brokers                []string
	stdout                 bool
}

func (f *targetFlags) add(s *pflag.FlagSet) {
	s.StringVar(&f.prefix, "to-prefix", "", "to the topics of this prefix")
	s.StringSliceVar(&f.brokers, "to-brokers", nil, "of this Kafka instead of the live one; with the same TLS and SASL settings")
	s.StringVar(&f.postgres, "to-postgres", "", "to the tables of this database, as the postgres sink writes them")
	s.StringVar(&f.file, "to-file", "", "to this file, as lines of JSON; FILE.replay says how far it is")
	s.BoolVar(&f.stdout, "to-stdout", false, "to standard output, as lines of JSON")
}

func (f *targetFlags) check() error {
	named := 0
	for _, given := range []bool{f.prefix != "" || len(f.brokers) > 0, f.postgres != "", f.file != "", f.stdout} {
		if given {
			named++
		}
	}
	if named != 1 {
		return &usageError{"name one place to write to: --to-prefix (with --to-brokers for another Kafka), --to-postgres, --to-file or --to-stdout"}
	}
	return nil
}

// where names the place, without passwords.
func (f *targetFlags) where() string {
	switch {
	case f.postgres != "":
		return config.DSN(f.postgres).String()
	case f.file != "":
		return f.file
	case f.stdout:
		return "standard output"
	case len(f.brokers) > 0:
		return "topics " + f.prefix + ".* of kafka " + strings.Join(f.brokers, ",")
	}
	return "topics " + f.prefix + ".*"
}

// resume is the command that goes on with a replay, without passwords.
func (f *targetFlags) resume(id string) string {
	var to []string
	for _, flag := range []struct{ name, value string }{{"prefix", f.prefix}, {"brokers", strings.Join(f.brokers, ",")},
		{"postgres", config.DSN(f.postgres).String()}, {"file", f.file}} {
		if flag.value != "" {
			to = append(to, "--to-"+flag.name+" "+flag.value)
		}
	}
	if f.stdout {
		return "begin again, since standard output can't be read back"
	}
	return "exporter replay --resume " + id + " " + strings.Join(to, " ")
}

// open opens the place. live is the identity of the log that is read, which must not be written to.
func (f *targetFlags) open(ctx context.Context, settings *config.Config, cluster, live string) (replay.Target, error) {
	switch {
	case f.file != "":
		return replay.NewFile(f.file), nil
	case f.stdout:
		if isTerminal(os.Stdout) {
			return replay.NewStream(plain.JSONWriter(os.Stdout)), nil
		}
		return replay.NewStream(os.Stdout), nil
	case f.postgres != "":
		return postgres.NewReplay(postgres.Config{URL: f.postgres, Cluster: cluster}), nil
	}
	to := setup.KafkaConfig(settings, cluster)
	to.History, to.Version = 0, versionText() // what is replayed is kept
	if len(f.brokers) > 0 {
		to.Brokers = f.brokers
	}
	if len(to.Brokers) == 0 {
		return nil, &usageError{"--to-prefix: name the Kafka of the topics with --to-brokers, or set KUBECDC_KAFKA_BROKERS"}
	}
	if f.prefix != "" {
		to.TopicPrefix = f.prefix
	}
	if to.Delivery = kafka.ExactlyOnce; settings.Sink.Kind != kafka.Kind.Name && f.prefix == "" {
		return nil, &usageError{"--to-prefix: name the prefix of the topics"}
	}
	if err := to.Validate(); err != nil {
		return nil, &usageError{"--to-prefix, --to-brokers: " + err.Error()}
	}
	target, err := kafka.NewReplay(to)
	if err != nil {
		return nil, err
	}
	var identity string
	step := startup.Step{For: "the Kafka to write to", At: strings.Join(to.Brokers, ","), Limit: setup.RequestLimit}
	err = startup.Once(ctx, step, func(ctx context.Context) (err error) {
		identity, err = target.Identity(ctx)
		return err
	})
	if err != nil {
		target.Close()
		return nil, err
	}
	if overlap(identity, live) {
		target.Close()
		return nil, &usageError{fmt.Sprintf("the live log is %s, and a replay to %s would write into its topics: choose a prefix that is "+
			"no part of the live one", live, identity)}
	}
	return target, nil
}

// overlap reports whether two logs, as kafka.Sink.Identity names them, have topics in common.
func overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}

// liveLog is the identity of the log that is read.
func (r *replaying) liveLog(ctx context.Context) (string, error) {
	if r.settings.Sink.Kind != kafka.Kind.Name {
		return setup.SinkAddress(r.settings), nil
	}
	sink, err := kafka.New(setup.KafkaConfig(r.settings, r.cluster))
	if err != nil {
		return "", err
	}
	defer sink.Close()
	return sink.Identity(ctx)
}

// topicOf is the topic that the records of a stream go to, if it is one. live is the prefix of the live log.
func (f *targetFlags) topicOf(live string, stream change.StreamID) string {
	if f.postgres != "" || f.file != "" || f.stdout {
		return ""
	}
	return change.TopicOf(cmp.Or(f.prefix, live), stream)
}

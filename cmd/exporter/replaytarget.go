package main

import (
	"cmp"
	"context"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"kubecdc/change"
	"kubecdc/config"
	"kubecdc/internal/plain"
	"kubecdc/replay"
	"kubecdc/setup"
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
	topics, err := setup.OpenReplayTopics(ctx, settings, cluster, live, f.prefix, f.brokers, versionText())
	if err != nil {
		return nil, wrongArgument(err)
	}
	return topics, nil
}

// topicOf is the topic that the records of a stream go to, if it is one. live is the prefix of the live log.
func (f *targetFlags) topicOf(live string, stream change.StreamID) string {
	if f.postgres != "" || f.file != "" || f.stdout {
		return ""
	}
	return change.TopicOf(cmp.Or(f.prefix, live), stream)
}

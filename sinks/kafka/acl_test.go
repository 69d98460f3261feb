package kafka_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
)

// With the ACLs in docs/security.md, and no others, each kind of use works. Without one of them the error names it, with the
// command that grants it. After that it works.
func TestRights(t *testing.T) {
	t.Parallel()
	broker := startKafka(t, servers.KafkaOptions{SASL: true, ACLs: true})
	owner := newConfig(t, broker.Brokers) // may do everything
	log, _ := openLog(t, newSink(t, owner), 0, 1, sinks.Durable{})
	mustWrite(t, log, lives(1, 5, 2))

	topics := func(cfg *kafka.Config, op kadm.ACLOperation) servers.KafkaRule {
		return servers.KafkaRule{Topic: cfg.TopicPrefix + ".", Prefixed: true, Operations: []kadm.ACLOperation{op}}
	}
	ids := func(cfg *kafka.Config, _ kadm.ACLOperation) servers.KafkaRule {
		return servers.KafkaRule{Transactional: cfg.TopicPrefix + "-", Prefixed: true, Operations: []kadm.ACLOperation{kadm.OpWrite}}
	}
	group := func(cfg *kafka.Config, op kadm.ACLOperation) servers.KafkaRule {
		return servers.KafkaRule{Group: cfg.TopicPrefix + "-group", Operations: []kadm.ACLOperation{op}}
	}
	for name, use := range map[string]struct {
		try   func(context.Context, kafka.Config) error
		read  bool // the owner has written a log to read
		needs []needed
	}{
		"exactly-once":  {export(kafka.ExactlyOnce), false, []needed{{topics, kadm.OpRead}, {topics, kadm.OpWrite}, {topics, kadm.OpCreate}, {ids, kadm.OpWrite}}},
		"at-least-once": {export(kafka.AtLeastOnce), false, []needed{{topics, kadm.OpRead}, {topics, kadm.OpWrite}, {topics, kadm.OpCreate}, {ids, kadm.OpWrite}}},
		"replay":        {replayTo, false, []needed{{topics, kadm.OpRead}, {topics, kadm.OpWrite}, {topics, kadm.OpCreate}, {ids, kadm.OpWrite}}},
		"history":       {readLog, true, []needed{{topics, kadm.OpRead}}},
		"group offsets": {moveGroup, true, []needed{{topics, kadm.OpRead}, {group, kadm.OpRead}}},
	} {
		t.Run(name, func(t *testing.T) {
			for without := range len(use.needs) + 1 {
				cfg := newConfig(t, broker.SASLBrokers)
				if use.read {
					cfg.TopicPrefix = owner.TopicPrefix
				}
				cfg.SASL = kafka.SASL{Mechanism: "PLAIN", Username: servers.KafkaUser, Password: servers.KafkaPassword}
				var missing []servers.KafkaRule
				for i, n := range use.needs {
					rule := n.rule(&cfg, n.op)
					if i == without {
						missing = []servers.KafkaRule{rule}
						continue
					}
					mustDo(t, broker.Rule(servers.Context(t), rule))
				}
				if missing != nil {
					err := use.try(servers.Context(t), cfg)
					if want := command(broker, missing[0]); err == nil || !mentions(err, want) {
						t.Errorf("without %+v: %v\nwant %s", missing[0], err, want)
					}
					mustDo(t, broker.Rule(servers.Context(t), missing...))
				}
				if err := use.try(servers.Context(t), cfg); err != nil {
					t.Errorf("with all rights: %v", err)
				}
				for _, n := range use.needs {
					mustDo(t, broker.Unrule(servers.Context(t), n.rule(&cfg, n.op)))
				}
			}
		})
	}
	t.Run("the log's size", func(t *testing.T) { logSize(t, broker) })
	t.Run("withdrawn meanwhile", func(t *testing.T) { rightsWithdrawn(t, broker) })
}

// needed is one right.
type needed struct {
	rule func(*kafka.Config, kadm.ACLOperation) servers.KafkaRule
	op   kadm.ACLOperation
}

// command returns the beginning and the end of the command that grants a right.
func command(broker *servers.Kafka, r servers.KafkaRule) []string {
	begin := "kafka-acls.sh --bootstrap-server " + broker.SASLBrokers[0] + " --add --allow-principal 'User:kubecdc' "
	op := "--operation " + map[kadm.ACLOperation]string{kadm.OpRead: "Read", kadm.OpWrite: "Write", kadm.OpCreate: "Create"}[r.Operations[0]] + " "
	switch {
	case r.Topic != "":
		return []string{begin, op, "--topic '" + r.Topic + "'"}
	case r.Group != "":
		return []string{begin, op, "--group '" + r.Group + "'"}
	}
	return []string{begin, op, "--transactional-id '" + r.Transactional}
}

func mentions(err error, texts []string) bool {
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			return false
		}
	}
	return true
}

// export does what exporter run does. It begins with a check, which must return the same error.
func export(delivery string) func(context.Context, kafka.Config) error {
	return func(ctx context.Context, cfg kafka.Config) error {
		cfg.Delivery = delivery
		s, err := kafka.New(cfg)
		if err != nil {
			return err
		}
		defer s.Close()
		if _, err := s.Check(ctx, []change.Resource{podStream.Resource}); err != nil {
			return err
		}
		opened, err := s.Open(ctx, 0, 1, sinks.Durable{})
		if err != nil {
			return err
		}
		_, err = opened.Log.Write(ctx, lives(1, 5, 2))
		return errors.Join(err, opened.Log.Close())
	}
}

func replayTo(ctx context.Context, cfg kafka.Config) error {
	r, err := kafka.NewReplay(cfg)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.Open(ctx, "test", func(*change.Control) error { return nil }); err != nil {
		return err
	}
	c := lives(1, 1, 1).Changes[0]
	return r.Write(ctx, []sinks.Logged{{Change: c, Key: []byte("{}"), Value: []byte("{}")}}, &change.Control{Replay: &change.Replay{}})
}

func readLog(ctx context.Context, cfg kafka.Config) error {
	r, err := kafka.OpenReader(ctx, cfg)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Changes(ctx, sinks.Query{}, func(*sinks.Logged) error { return nil })
}

func moveGroup(ctx context.Context, cfg kafka.Config) error {
	s, err := kafka.New(cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	topic, group := cfg.TopicPrefix+".pods", cfg.TopicPrefix+"-group"
	if _, err := s.Group(ctx, group); err != nil {
		return err
	}
	starts, _, err := s.Bounds(ctx, []string{topic})
	if err != nil {
		return err
	}
	return s.CommitGroup(ctx, group, starts)
}

package kafka_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
)

// follow does what a message says: it runs each command of Kafka's tools in it. It returns their number.
func follow(t *testing.T, broker *servers.Kafka, message string) (n int) {
	t.Helper()
	for {
		_, after, found := strings.Cut(message, "kafka-")
		if !found {
			return n
		}
		end := strings.IndexAny(after+"\n", "\n)")
		words := strings.Fields(after[:end])
		message = after[end:]
		flags := map[string][]string{}
		for i, word := range words {
			if i > 0 && strings.HasPrefix(words[i-1], "--") {
				flags[words[i-1]] = append(flags[words[i-1]], strings.Trim(word, "'"))
			}
		}
		switch {
		case words[0] == "acls.sh":
			runGrants(t, broker, flags)
		case words[0] == "configs.sh" && flags["--add-config"] != nil:
			runConfigs(t, broker, flags)
		default:
			t.Fatalf("what does %q do?", words)
		}
		n++
	}
}

func runGrants(t *testing.T, broker *servers.Kafka, flags map[string][]string) {
	t.Helper()
	if user := flags["--allow-principal"]; len(user) != 1 || user[0] != "User:"+servers.KafkaUser {
		t.Fatalf("the command grants to %q", user)
	}
	rule := servers.KafkaRule{Prefixed: flags["--resource-pattern-type"] != nil, Topic: strings.Join(flags["--topic"], ""),
		Transactional: strings.Join(flags["--transactional-id"], ""), Group: strings.Join(flags["--group"], "")}
	for _, name := range flags["--operation"] {
		var op kadm.ACLOperation
		mustDo(t, op.UnmarshalText([]byte(name)))
		rule.Operations = append(rule.Operations, op)
	}
	mustDo(t, broker.Rule(servers.Context(t), rule))
}

func runConfigs(t *testing.T, broker *servers.Kafka, flags map[string][]string) {
	t.Helper()
	r, topic := newReader(t, broker.Brokers), flags["--entity-name"][0]
	list := false
	for _, setting := range strings.FieldsFunc(flags["--add-config"][0], func(c rune) bool {
		list = list && c != ']' || c == '['
		return c == ',' && !list
	}) {
		name, value, _ := strings.Cut(setting, "=")
		r.configure(t, topic, name, strings.Trim(value, "[]"))
	}
}

// Each hint about an unsuitable setting of a topic is followed, and then the topic is suitable.
func TestHintsOnTopicsHelp(t *testing.T) {
	t.Parallel()
	broker := servers.SharedKafka(t)
	write := func(cfg kafka.Config) error {
		log, err := newSink(t, cfg).Open(servers.Context(t), 0, time.Now().UnixNano(), sinks.Durable{})
		if err != nil {
			return err
		}
		_, err = log.Log.Write(servers.Context(t), lives(1, 3, 2))
		return errors.Join(err, log.Log.Close())
	}
	check := func(cfg kafka.Config) error {
		found, err := newSink(t, cfg).Check(servers.Context(t), []change.Resource{podStream.Resource})
		for _, more := range append(found.Warnings, found.Retention...) {
			err = errors.Join(err, errors.New(more))
		}
		return err
	}
	for name, tc := range map[string]struct {
		topic, setting, value string
		try                   func(kafka.Config) error
	}{
		"it expires by age":             {".pods", "retention.ms", "60000", write},
		"it expires by size":            {".pods", "retention.bytes", "1000000", check},
		"a limit too low":               {".pods", "max.message.bytes", "100", check},
		"a limit too low for positions": {".control", "max.message.bytes", "1000", check},
		"more replicas than there are":  {".pods", "min.insync.replicas", "2", check},
		"control records are compacted": {".control", "cleanup.policy", "compact", check},
		"compressed twice":              {".pods", "compression.type", "gzip", check},
		"a shorter history":             {".pods", "min.compaction.lag.ms", "1000", check},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := newConfig(t, broker.Brokers)
			newReader(t, cfg.Brokers).makeTopic(t, cfg.TopicPrefix+tc.topic, tc.setting, tc.value)
			err := tc.try(cfg)
			if err == nil || follow(t, broker, err.Error()) == 0 {
				t.Fatalf("what is wrong is answered by %v", err)
			}
			for range 3 { // a topic with one setting may lack more
				if err = tc.try(cfg); err == nil || follow(t, broker, err.Error()) == 0 {
					break
				}
			}
			if err != nil {
				t.Errorf("after the commands: %v", err)
			}
			mustDo(t, write(cfg))
		})
	}
}

// If a hint names a setting of the exporter, that setting helps.
func TestHintsOnSettingsHelp(t *testing.T) {
	t.Parallel()
	for setting, tc := range map[string]struct{ breaks, mends func(*kafka.Config) }{
		"KUBECDC_KAFKA_TRANSACTION_TIMEOUT": {func(c *kafka.Config) { c.TransactionTimeout = time.Hour }, func(c *kafka.Config) { c.TransactionTimeout = time.Minute }},
		"KUBECDC_KAFKA_REPLICATION_FACTOR":  {func(c *kafka.Config) { c.ReplicationFactor = 3 }, func(c *kafka.Config) { c.ReplicationFactor = 1 }},
		"KUBECDC_KAFKA_TOPIC_CONFIG": {func(c *kafka.Config) { c.TopicConfig = map[string]string{"max.message.bytes": "many"} },
			func(c *kafka.Config) { c.TopicConfig = nil }},
	} {
		t.Run(setting, func(t *testing.T) {
			cfg := newConfig(t, servers.SharedKafka(t).Brokers)
			good := cfg
			tc.breaks(&cfg)
			for name, try := range map[string]func(context.Context, kafka.Config) error{"export": export(""), "replay": replayTo} {
				if err := try(servers.Context(t), cfg); err == nil || !strings.Contains(err.Error(), setting) {
					t.Errorf("%s: %v", name, err)
				}
				tc.mends(&good)
				good.TopicPrefix += "-" + name
				mustDo(t, try(servers.Context(t), good))
			}
		})
	}
}

// A topic demands more replicas than it has. The report during retries names the setting. The write goes on once that is lowered.
func TestTheHintOnMissingReplicasHelps(t *testing.T) {
	t.Parallel()
	cfg, h := newConfig(t, servers.SharedKafka(t).Brokers), &heard{stuck: make(chan error, 100)}
	cfg.Observer = h
	r, topic := newReader(t, cfg.Brokers), cfg.TopicPrefix+".pods"
	r.makeTopic(t, topic, "min.insync.replicas", "2")
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	go func() {
		if err := <-h.stuck; err == nil || !strings.Contains(err.Error(), "lower min.insync.replicas") {
			t.Errorf("it is reported that %v", err)
		}
		one := "1"
		if _, err := r.admin.AlterTopicConfigs(servers.Context(t), []kadm.AlterConfig{{Name: "min.insync.replicas", Value: &one}}, topic); err != nil {
			t.Error(err)
		}
	}()
	b := lives(1, 3, 2)
	mustWrite(t, log, b)
	wantOnce(t, r.committed(t, cfg.Brokers, topic), b)
}

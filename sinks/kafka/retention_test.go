package kafka_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
)

// writeOne creates all topics of a prefix except the dead-letter topic.
func writeOne(t *testing.T, cfg kafka.Config) {
	t.Helper()
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{created("a", 10)}})
}

// topicConfig returns some of a topic's settings, as an independent client reads them.
func topicConfig(t *testing.T, r *reader, topic string, keys ...string) (values []string) {
	t.Helper()
	all, err := r.admin.DescribeTopicConfigs(servers.Context(t), topic)
	mustDo(t, err)
	config, err := all.On(topic, nil)
	mustDo(t, err)
	for _, key := range keys {
		for _, c := range config.Configs {
			if c.Key == key {
				values = append(values, c.MaybeValue())
			}
		}
	}
	return values
}

func TestRetentionOfCreatedTopics(t *testing.T) {
	for _, test := range []struct {
		history       time.Duration
		data, control string
	}{
		{0, "[compact,delete -1 604800000 86400000]", "[delete 604800000]"},
		{time.Hour, "[compact,delete -1 3600000 86400000]", "[delete 604800000]"},
		{1000 * time.Hour, "[compact,delete -1 3600000000 86400000]", "[delete 3600000000]"},
		{sinks.Forever, "[delete -1 0 86400000]", "[delete -1]"},
	} {
		t.Run(test.history.String(), func(t *testing.T) {
			cfg := newConfig(t, servers.SharedKafka(t).Brokers)
			cfg.History = test.history
			writeOne(t, cfg)
			r := newReader(t, cfg.Brokers)
			if got := fmt.Sprint(topicConfig(t, r, cfg.TopicPrefix+".pods", "cleanup.policy", "retention.ms", "min.compaction.lag.ms", "delete.retention.ms")); got != test.data {
				t.Errorf("the data topic has %s, want %s", got, test.data)
			}
			if got := fmt.Sprint(topicConfig(t, r, cfg.TopicPrefix+".control", "cleanup.policy", "retention.ms")); got != test.control {
				t.Errorf("the control topic has %s, want %s", got, test.control)
			}
		})
	}
}

// The retention of an existing topic is not changed. A difference is logged once, with the command that changes it.
func TestOtherRetentionIsReportedAndNotChanged(t *testing.T) {
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	writeOne(t, cfg)
	var log bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	cfg.History = sinks.Forever
	sink := newSink(t, cfg)
	slot := openNew(t, sink, 2)
	mustWrite(t, slot, &change.Batch{Epoch: 2, Seq: 2, Changes: []change.Change{created("b", 20)}})
	slot = openNew(t, sink, 3)
	mustWrite(t, slot, &change.Batch{Epoch: 3, Seq: 2, Changes: []change.Change{created("b", 20)}})

	pods, control := cfg.TopicPrefix+".pods", cfg.TopicPrefix+".control"
	r := newReader(t, cfg.Brokers)
	if got := topicConfig(t, r, pods, "cleanup.policy"); got[0] != "compact,delete" {
		t.Errorf("the topic was changed: %s", got)
	}
	for _, want := range []string{
		"topic=" + pods + " has=\"cleanup.policy=compact,delete\" asked=\"cleanup.policy=delete\"",
		"topic=" + control + " has=\"retention.ms=604800000\" asked=\"retention.ms=-1\"",
		"kafka-configs.sh --bootstrap-server " + cfg.Brokers[0] + " --alter --entity-type topics --entity-name " + pods + " --add-config 'cleanup.policy=delete'",
	} {
		if n := strings.Count(strings.ReplaceAll(log.String(), `\"`, `"`), want); n != 1 {
			t.Errorf("%q was logged %d times, want once:\n%s", want, n, log.String())
		}
	}
	wantRetention(t, sink, control+" has retention.ms=604800000", pods+" has cleanup.policy=compact,delete")

	r.configure(t, pods, "cleanup.policy", "delete")
	r.configure(t, control, "retention.ms", "-1")
	wantRetention(t, sink)
	cfg.History = 48 * time.Hour
	wantRetention(t, newSink(t, cfg), control+" has retention.ms=-1", pods+" has cleanup.policy=delete")
	r.configure(t, control, "retention.ms", "604800000")
	r.configure(t, pods, "cleanup.policy", "compact") // then a time limit has no effect
	r.configure(t, pods, "retention.ms", "1000")
	r.configure(t, pods, "min.compaction.lag.ms", "172800000")
	wantRetention(t, newSink(t, cfg))
}

// openNew opens the slot without a checkpoint.
func openNew(t *testing.T, sink *kafka.Sink, epoch int64) sinks.Log {
	t.Helper()
	log, _ := openLog(t, sink, 0, epoch, sinks.Durable{New: true})
	return log
}

func wantRetention(t *testing.T, sink *kafka.Sink, want ...string) {
	t.Helper()
	got, err := sink.Retention(servers.Context(t))
	mustDo(t, err)
	ok := len(got) == len(want)
	for i := range want {
		ok = ok && strings.HasPrefix(got[i], "topic "+want[i]) && strings.Contains(got[i], "kafka-configs.sh ")
	}
	if !ok {
		t.Errorf("it says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// If a topic is emptied by age or size, Kafka may remove live objects from it. A check names such a topic, and no record is
// written there until the topic is changed or a setting accepts it. A topic of a longer prefix is another log's.
func TestATopicThatExpiresIsRefused(t *testing.T) {
	t.Parallel()
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	r := newReader(t, cfg.Brokers)
	nodes := change.Resource{Version: "v1", Plural: "nodes", Kind: "Node"}
	pods := change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}
	r.makeTopic(t, cfg.TopicPrefix+".pods", "retention.ms", "86400000")
	r.makeTopic(t, cfg.TopicPrefix+".nodes", "retention.bytes", "1000000")
	longer := cfg
	longer.TopicPrefix += ".v2"
	writeOne(t, longer)
	report, err := newSink(t, cfg).Check(servers.Context(t), []change.Resource{pods, nodes})
	if err == nil || !strings.Contains(err.Error(), "pods --add-config 'retention.ms=-1'") ||
		!strings.Contains(err.Error(), "nodes --add-config 'retention.bytes=-1'") {
		t.Errorf("a check finds %v", err)
	}
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	_, err = log.Write(servers.Context(t), &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{created("a", 10)}})
	var refused *sinks.RefusedError
	if !errors.As(err, &refused) || !refused.Refusals[0].Refuses(pods) || refused.Refusals[0].Refuses(nodes) {
		t.Fatalf("a write to a topic that expires: %v", err)
	}
	if err := refused.Refusals[0].Again(servers.Context(t)); err == nil {
		t.Error("the topic is accepted as it is")
	}
	r.configure(t, cfg.TopicPrefix+".pods", "retention.ms", "-1")
	if err := refused.Refusals[0].Again(servers.Context(t)); err != nil {
		t.Errorf("the topic has no limit any more: %v", err)
	}
	cfg.Expiring = true
	if report, err = newSink(t, cfg).Check(servers.Context(t), []change.Resource{pods, nodes}); err != nil {
		t.Errorf("accepted: %v", err)
	}
	if text := strings.Join(report.Retention, "\n"); !strings.Contains(text, ".nodes has ") || strings.Contains(text, ".v2.") {
		t.Errorf("the report is\n%s", text)
	}
}

// If another prefix begins with this one, both may have topics with the same name. These are not written.
func TestATopicOfALongerPrefixIsRefused(t *testing.T) {
	t.Parallel()
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	longer := cfg
	longer.TopicPrefix += ".v2"
	writeOne(t, longer)
	v2 := change.Resource{Group: "pods", Version: "v1", Plural: "v2", Kind: "V2"} // its topic would be PREFIX.v2.pods
	batch := &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{created("a", 10)}}
	batch.Changes[0].Stream = change.NewStream(v2, "", "", "")
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	_, err := log.Write(servers.Context(t), batch)
	if refused, ok := errors.AsType[*sinks.RefusedError](err); !ok || !refused.Refusals[0].Refuses(v2) || !strings.Contains(err.Error(), cfg.TopicPrefix+".v2:") {
		t.Errorf("a write to the topic of another log: %v", err)
	}
	if _, err := newSink(t, cfg).Check(servers.Context(t), []change.Resource{v2}); err == nil || !strings.Contains(err.Error(), cfg.TopicPrefix+".v2:") {
		t.Errorf("a check finds %v", err)
	}
}

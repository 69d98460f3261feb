package kafka_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
)

var nodeStream = change.NewStream(change.Resource{Version: "v1", Plural: "nodes", Kind: "Node"}, "", "", "")

// A topic whose limit is below a stub's size refuses only its resource. A dead-letter topic with such a limit refuses the
// resource that needs it. The rest of the batch can be written, and all of it once the limit is raised.
func TestALimitBelowTheStubRefusesOneResource(t *testing.T) {
	for name, tc := range map[string]struct{ topic, delivery string }{
		"its own topic":       {"pods", kafka.ExactlyOnce},
		"its own, repeated":   {"pods", kafka.AtLeastOnce},
		"the dead-letter one": {"dead-letter", kafka.ExactlyOnce},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := newConfig(t, servers.SharedKafka(t).Brokers)
			cfg.Delivery = tc.delivery
			r := newReader(t, cfg.Brokers)
			r.makeTopic(t, cfg.TopicPrefix+"."+tc.topic, "max.message.bytes", "100")
			s := newSink(t, cfg)
			defer s.Close()
			log, _ := openLog(t, s, 0, 1, sinks.Durable{})
			nodes := &change.Batch{Epoch: 2, Seq: 1, Changes: []change.Change{pod(seeded(), "node", 1)}}
			nodes.Changes[0].Stream, nodes.Changes[0].Namespace = nodeStream, ""
			pods := &change.Batch{Epoch: 2, Seq: 2, Changes: []change.Change{huge("big", 20, 3<<20)}}
			_, err := log.Write(servers.Context(t), &change.Batch{Epoch: 1, Seq: 1, Changes: slices.Concat(pods.Changes, nodes.Changes)})
			refusal := refusalOf(t, err)
			if !refusal.Refuses(podStream.Resource) || refusal.Refuses(nodeStream.Resource) || !strings.Contains(refusal.Err.Error(), "raise max.message.bytes") {
				t.Errorf("refused: %v", err)
			}
			mustDo(t, log.Close())

			log, recovered := openLog(t, s, 0, 2, sinks.Durable{})
			if len(recovered) > 0 {
				t.Errorf("recovered %d batches", len(recovered))
			}
			mustWrite(t, log, nodes)
			if tc.topic == "pods" { // a limit that is just enough can't be distinguished from one that is not
				if err := refusal.Again(servers.Context(t)); err == nil || !strings.Contains(err.Error(), "above the topic's limit of 100") {
					t.Errorf("asked again: %v", err)
				}
			}
			r.configure(t, cfg.TopicPrefix+"."+tc.topic, "max.message.bytes", "1000000")
			mustDo(t, refusal.Again(servers.Context(t)))
			mustWrite(t, log, pods)
			wantOnce(t, r.committed(t, cfg.Brokers, cfg.TopicPrefix+".pods"), pods)
			if tc.delivery == kafka.ExactlyOnce {
				wantOnce(t, r.committed(t, cfg.Brokers, cfg.TopicPrefix+".nodes"), nodes)
			}
		})
	}
}

func refusalOf(t *testing.T, err error) sinks.Refusal {
	t.Helper()
	var refused *sinks.RefusedError
	if !errors.As(err, &refused) || len(refused.Refusals) != 1 {
		t.Fatalf("Write = %v, want one refusal", err)
	}
	return refused.Refusals[0]
}

// Check names the problems of the topics while a log is written. It writes no record and fences nobody.
func TestCheckWritesNothing(t *testing.T) {
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	r, resources := newReader(t, cfg.Brokers), []change.Resource{podStream.Resource, nodeStream.Resource}
	s := newSink(t, cfg)
	defer s.Close()
	found, err := s.Check(servers.Context(t), resources)
	if err != nil || len(found.Warnings) > 0 || len(found.Retention) > 0 {
		t.Fatalf("Check = %v, %v", found, err)
	}
	topics, err := r.admin.ListTopics(servers.Context(t))
	mustDo(t, err)
	if made := slices.DeleteFunc(topics.Names(), func(n string) bool { return !strings.HasPrefix(n, cfg.TopicPrefix) }); len(made) > 0 {
		t.Errorf("a check makes %v", made)
	}
	log, _ := openLog(t, s, 0, 1, sinks.Durable{})
	b := podBatch(3)
	b.Seq = 1
	mustWrite(t, log, b)
	r.makeTopic(t, cfg.TopicPrefix+".dead-letter", "cleanup.policy", "compact")
	r.configure(t, cfg.TopicPrefix+".control", "max.message.bytes", "1000")
	before := r.count(t, cfg)

	_, err = newSink(t, cfg).Check(servers.Context(t), resources)
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, text := range []string{cfg.TopicPrefix + ".control: max.message.bytes is 1000", cfg.TopicPrefix + ".dead-letter: it has cleanup.policy=compact"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("Check does not say %q: %v", text, err)
		}
	}
	if after := r.count(t, cfg); !maps.Equal(after, before) {
		t.Errorf("the topics have %v records, and had %v", after, before)
	}
	r.configure(t, cfg.TopicPrefix+".control", "max.message.bytes", "1000000")
	next := podBatch(5)
	next.Seq = 2
	for i := range next.Changes {
		next.Changes[i].ResourceVersion = change.ResourceVersion(strconv.Itoa(100 + i))
	}
	mustWrite(t, log, next)
	if _, recovered := openLog(t, s, 0, 2, sinks.Durable{}); len(recovered) != 2 {
		t.Errorf("recovered %d batches, want 2", len(recovered))
	}
}

// count returns how many records a consumer finds in the topics.
func (r *reader) count(t *testing.T, cfg kafka.Config) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, topic := range []string{"control", "pods", "dead-letter"} {
		for _, records := range r.committed(t, cfg.Brokers, cfg.TopicPrefix+"."+topic) {
			counts[topic] += len(records)
		}
	}
	return counts
}

func (r *reader) makeTopic(t *testing.T, topic, setting, value string) {
	t.Helper()
	_, err := r.admin.CreateTopic(servers.Context(t), 1, 1, map[string]*string{setting: &value}, topic)
	mustDo(t, err)
}

func (r *reader) configure(t *testing.T, topic, setting, value string) {
	t.Helper()
	res, err := r.admin.AlterTopicConfigs(servers.Context(t), []kadm.AlterConfig{{Name: setting, Value: &value}}, topic)
	mustDo(t, err)
	_, err = res.On(topic, nil)
	mustDo(t, err)
	mustDo(t, res[0].Err)
	r.awaitConfig(t, topic, setting, value)
}

// awaitConfig waits until the broker applies the setting. It answers before that.
func (r *reader) awaitConfig(t *testing.T, topic, setting, value string) {
	t.Helper()
	servers.Await(t, fmt.Sprintf("%s of %s to be %s", setting, topic, value), func() (bool, error) {
		return topicConfig(t, r, topic, setting)[0] == value, nil
	})
}

// A limit that is raised while the exporter runs applies to the next record, which is no dead letter.
func TestALimitThatIsRaisedIsNoticed(t *testing.T) {
	t.Parallel()
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	r, topic := newReader(t, cfg.Brokers), cfg.TopicPrefix+".pods"
	r.makeTopic(t, topic, "max.message.bytes", "100000")
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{huge("first", 20, 500_000)}})
	r.configure(t, topic, "max.message.bytes", "1000000")
	second := &change.Batch{Epoch: 1, Seq: 2, Changes: []change.Change{huge("second", 21, 500_000)}}
	mustWrite(t, log, second)
	if letters := deadLetters(t, r.committed(t, cfg.Brokers, cfg.TopicPrefix+".dead-letter")); len(letters) != 1 {
		t.Errorf("there are %d dead letters, want one", len(letters))
	}
	if change.IsStub(second.Changes[0].After) {
		t.Error("the second record is a stub, though its topic takes it")
	}
}

// A topic that accepts only times near the broker's clock refuses its resource, since an object may be older. The hint names the
// setting.
func TestATopicThatRefusesTimesRefusesOneResource(t *testing.T) {
	t.Parallel()
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	r, topic := newReader(t, cfg.Brokers), cfg.TopicPrefix+".pods"
	r.makeTopic(t, topic, "message.timestamp.before.max.ms", "60000")
	if _, err := newSink(t, cfg).Check(servers.Context(t), []change.Resource{podStream.Resource}); err == nil ||
		!strings.Contains(err.Error(), topic+": message.timestamp.before.max.ms is 60000") {
		t.Errorf("Check = %v", err)
	}
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	old := &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{created("a", 10)}}
	old.Changes[0].Time = time.Now().Add(-time.Hour)
	_, err := log.Write(servers.Context(t), old)
	if refusal := refusalOf(t, err); !refusal.Refuses(podStream.Resource) || !strings.Contains(refusal.Err.Error(), "message.timestamp.type=LogAppendTime") {
		t.Errorf("refused: %v", err)
	}
	mustDo(t, log.Close())
	r.configure(t, topic, "message.timestamp.type", "LogAppendTime")
	log, _ = openLog(t, newSink(t, cfg), 0, 2, sinks.Durable{})
	old.Epoch = 2
	mustWrite(t, log, old)
}

// Kafka would remove control records that count. So nothing is written until the topic's settings are right.
func TestACompactedControlTopicIsRefused(t *testing.T) {
	t.Parallel()
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	r, topic := newReader(t, cfg.Brokers), cfg.TopicPrefix+".control"
	r.makeTopic(t, topic, "cleanup.policy", "compact")
	open := func() error {
		o, err := newSink(t, cfg).Open(servers.Context(t), 0, 1, sinks.Durable{})
		if err == nil {
			o.Log.Close()
		}
		return err
	}
	if err := open(); err == nil || !strings.Contains(err.Error(), "'cleanup.policy=delete'") {
		t.Errorf("Open = %v", err)
	}
	r.configure(t, topic, "cleanup.policy", "delete")
	mustDo(t, open())
}

// A check finds why a start would fail: the broker does not grant the timeout of transactions.
func TestCheckFindsATransactionTimeoutThatIsTooLong(t *testing.T) {
	t.Parallel()
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	cfg.TransactionTimeout = time.Hour
	if _, err := newSink(t, cfg).Check(servers.Context(t), nil); err == nil || !strings.Contains(err.Error(), "transaction.max.timeout.ms") {
		t.Errorf("a check finds %v", err)
	}
}

package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/cluster"
)

const (
	asks = "KUBECDC_KAFKA_HISTORY"
	week = 7 * 24 * time.Hour
	// tombstonesFor: once a tombstone may be compacted it stays for as long, for those who read from the start.
	tombstonesFor = 24 * time.Hour

	cleanupPolicy   = "cleanup.policy"
	retention       = "retention.ms"
	compactionLag   = "min.compaction.lag.ms"
	deleteRetention = "delete.retention.ms"
)

// topicPlan is how a topic is made where there is none.
type topicPlan struct {
	partitions int // 0: Config.Partitions
	config     map[string]string
}

// dataTopic: every change stays for as long as the history. After that the topic is compacted, so that the last state of
// every live object stays for ever, and a reader who starts late, or a lost checkpoint, has all of them. delete stands beside
// it, without a limit of its own, so that an operator can cut the log by hand: Kafka allows that on no topic that is compacted
// only.
func dataTopic(history time.Duration) topicPlan {
	if history == sinks.Forever {
		return topicPlan{config: map[string]string{cleanupPolicy: "delete", retention: "-1"}}
	}
	return topicPlan{config: map[string]string{cleanupPolicy: "compact,delete", retention: "-1",
		compactionLag: millis(history), deleteRetention: millis(tombstonesFor)}}
}

// controlTopic has one partition, so that its order is that of the log; a slot writes a few records a batch at most. One that
// has more keeps the number (Config.Pin), and each slot its partition. No compaction, since every batch record counts. It says
// how far the changes are complete, for as long as all of them stay; and for a week at least, whatever the history, since it
// is what an owner reads who comes after an outage.
func controlTopic(history time.Duration) topicPlan {
	return topicPlan{1, map[string]string{cleanupPolicy: "delete", retention: millis(max(history, week))}}
}

// deadLetterTopic: kept until an operator sets a limit. What stands there stands nowhere else.
var deadLetterTopic = topicPlan{config: map[string]string{cleanupPolicy: "delete", retention: "-1"}}

func millis(d time.Duration) string {
	if d == sinks.Forever {
		return "-1"
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

// difference is what a topic that is there keeps otherwise than planned. It is never changed: whoever made it may have meant
// it, a tool may change it back, and records that are dropped do not come back.
type difference struct {
	topic      string
	has, asked string // the settings that differ
	add        string // these, as kafka-configs.sh takes them
}

func (p *topicPlan) differs(topic string, has map[string]string) *difference {
	if has[cleanupPolicy] == "" { // it may not be read
		return nil
	}
	was, asked := effective(has), effective(p.config)
	var h, a, add []string
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		if was[key] != asked[key] {
			h, a = append(h, key+"="+has[key]), append(a, key+"="+p.config[key])
			value := p.config[key]
			if strings.Contains(value, ",") {
				value = "[" + value + "]"
			}
			add = append(add, key+"="+value)
		}
	}
	if len(h) == 0 {
		return nil
	}
	return &difference{topic, strings.Join(h, " "), strings.Join(a, " "), strings.Join(add, ",")}
}

// effective gives what of a topic's settings has an effect: a time limit has none where nothing is deleted.
func effective(config map[string]string) map[string]string {
	e := map[string]string{cleanupPolicy: "delete", retention: config[retention]}
	if !strings.Contains(config[cleanupPolicy], "compact") {
		return e
	}
	e[cleanupPolicy], e[compactionLag], e[deleteRetention] = "compact", config[compactionLag], config[deleteRetention]
	if !strings.Contains(config[cleanupPolicy], "delete") {
		e[retention] = "-1"
	}
	return e
}

func (d *difference) command(brokers []string) string {
	return fmt.Sprintf("kafka-configs.sh --bootstrap-server %s --alter --entity-type topics --entity-name %s --add-config '%s'",
		strings.Join(brokers, ","), d.topic, d.add)
}

// Retention says of each topic of the prefix that is there how it keeps its records, where that is not as asked.
func (s *Sink) Retention(ctx context.Context) (differences []string, err error) {
	names, err := s.client.Topics(ctx)
	if err != nil {
		return nil, s.client.NewError("list the topics", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, s.cfg.TopicPrefix+".") })
	if len(names) == 0 {
		return nil, nil
	}
	all, err := readConfigs(ctx, s.client, names...)
	if err != nil {
		return nil, s.client.NewError("read the topics' configuration", err)
	}
	slices.Sort(names)
	for _, name := range names {
		if d := s.plan(name).differs(name, all[name]); d != nil {
			differences = append(differences, fmt.Sprintf("topic %s has %s; %s asks for %s. Nothing changes it but\n%s",
				name, d.has, asks, d.asked, d.command(s.cfg.Brokers)))
		}
	}
	return differences, nil
}

// readConfigs reads the settings of topics that a plan has. Where one may not be read, the error is
// kafka.TopicAuthorizationFailed.
func readConfigs(ctx context.Context, c *cluster.Client, topics ...string) (map[string]map[string]string, error) {
	all, unread, err := c.TopicConfigs(ctx, topics, maxMessageBytes, cleanupPolicy, retention, compactionLag, deleteRetention)
	if err == nil && len(unread) > 0 {
		err = kafka.TopicAuthorizationFailed
	}
	return all, err
}

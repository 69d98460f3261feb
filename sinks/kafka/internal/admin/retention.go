package admin

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
	"kubecdc/sinks/kafka/internal/settings"
)

const (
	historySetting  = "KUBECDC_KAFKA_HISTORY"
	expiringSetting = "KUBECDC_KAFKA_EXPIRING_TOPICS"
	// tombstoneRetention is for consumers that read from the start: they must reach a tombstone before it is removed.
	tombstoneRetention = 24 * time.Hour

	// The settings of topics that say how long they keep what.

	CleanupPolicy   = "cleanup.policy"
	RetentionTime   = "retention.ms"
	RetentionBytes  = "retention.bytes"
	CompactionLag   = "min.compaction.lag.ms"
	deleteRetention = "delete.retention.ms"
)

// topicPlan is how a topic is created if there is none.
type topicPlan struct {
	partitions int // 0: Config.Partitions
	config     map[string]string
}

// dataTopic keeps every change for the time of the history. After that the topic is compacted: the last state of every live
// object stays for ever, for consumers that start late and for the rebuild of a lost checkpoint. The policy has delete too,
// without limits of time and size, so that an operator can delete records: Kafka refuses that for a topic that is only compacted.
func dataTopic(history time.Duration) topicPlan {
	if history == sinks.Forever {
		return topicPlan{config: map[string]string{CleanupPolicy: "delete", RetentionTime: "-1", RetentionBytes: "-1"}}
	}
	return topicPlan{config: map[string]string{CleanupPolicy: "compact,delete", RetentionTime: "-1", RetentionBytes: "-1",
		CompactionLag: millis(history), deleteRetention: millis(tombstoneRetention)}}
}

// controlTopic has one partition, so that its order is that of the log; a slot writes only a few records per batch. An existing
// topic may have more partitions: their number stays (Config.Pin), and each slot has one of them. It is not compacted, since
// every batch record counts. It keeps them for as long as the data topics keep every change, and for a week at least, since an
// owner reads them that starts after an outage.
func controlTopic(history time.Duration) topicPlan {
	return topicPlan{1, map[string]string{CleanupPolicy: "delete", RetentionTime: millis(max(history, settings.Week)), RetentionBytes: "-1"}}
}

// historyTopic keeps snapshots on demand, or audit records, for the time of the history. It is not compacted: nothing there says that an
// object of an earlier snapshot was deleted, and each request for an object counts.
func historyTopic(history time.Duration) topicPlan {
	return topicPlan{config: map[string]string{CleanupPolicy: "delete", RetentionTime: millis(history), RetentionBytes: "-1"}}
}

// deadLetterTopic keeps its records until an operator sets a limit: they are in no other topic.
var deadLetterTopic = topicPlan{config: map[string]string{CleanupPolicy: "delete", RetentionTime: "-1", RetentionBytes: "-1"}}

func millis(d time.Duration) string {
	if d == sinks.Forever {
		return "-1"
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

// difference says how the retention of an existing topic differs from the plan. The sink never changes it: it may be intended, a
// tool may change it back, and records that are deleted can't be restored.
type difference struct {
	topic      string
	has, asked string // the settings that differ
	add        string // these, as kafka-configs.sh takes them
}

func (p *topicPlan) differs(topic string, has map[string]string) *difference {
	if has[CleanupPolicy] == "" { // the settings may not be read
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

// effective are the settings of a topic that have an effect: a limit of time or size has none without the policy delete.
func effective(config map[string]string) map[string]string {
	e := map[string]string{CleanupPolicy: "delete", RetentionTime: config[RetentionTime], RetentionBytes: config[RetentionBytes]}
	if !strings.Contains(config[CleanupPolicy], "compact") {
		return e
	}
	e[CleanupPolicy], e[CompactionLag], e[deleteRetention] = "compact", config[CompactionLag], config[deleteRetention]
	if !strings.Contains(config[CleanupPolicy], "delete") {
		e[RetentionTime], e[RetentionBytes] = "-1", "-1"
	}
	return e
}

// expires returns an error if Kafka may remove records of a data topic that no later record replaces: the log would lose objects that live.
// A topic whose settings may not be read passes.
func (t *Topics) expires(name string, plan *topicPlan, has map[string]string) error {
	if plan != &t.data || t.cfg.Expiring || has[CleanupPolicy] == "" {
		return nil
	}
	limits := effective(has)
	d := &difference{topic: name}
	for _, key := range []string{RetentionTime, RetentionBytes} {
		if limits[key] != "-1" {
			d.has, d.add = strings.TrimSpace(d.has+" "+key+"="+limits[key]), strings.TrimPrefix(d.add+","+key+"=-1", ",")
		}
	}
	if d.has == "" {
		return nil
	}
	return &cluster.Error{Op: "write to " + name, Err: fmt.Errorf("it has cleanup.policy=%s with %s: %w", has[CleanupPolicy], d.has, cluster.ErrExpires),
		Hint: "this command removes the limits, and " + expiringSetting + "=accept accepts them:\n" + d.command(t.cfg.Brokers)}
}

func (d *difference) command(brokers []string) string {
	return fmt.Sprintf("kafka-configs.sh --bootstrap-server %s --alter --entity-type topics --entity-name %s --add-config '%s'",
		strings.Join(brokers, ","), d.topic, d.add)
}

// Retention describes each topic of the prefix whose retention is not as configured.
func (a *Admin) Retention(ctx context.Context) (differences []string, err error) {
	names, err := a.client.Topics(ctx)
	if err != nil {
		return nil, a.client.NewError("list the topics", err)
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !isOf(a.cfg.TopicPrefix, name, names) })
	if len(names) == 0 {
		return nil, nil
	}
	all, err := readConfigs(ctx, a.client, names...)
	if err != nil {
		return nil, a.client.NewError("read the topics' configuration", err)
	}
	for _, name := range names {
		if d := a.topics.plan(name).differs(name, all[name]); d != nil {
			differences = append(differences, fmt.Sprintf("topic %s has %s; %s asks for %s. It is left as it is; this command changes it:\n%s",
				name, d.has, historySetting, d.asked, d.command(a.cfg.Brokers)))
		}
	}
	return differences, nil
}

// isOf reports whether a topic is of the prefix, and not of a longer one.
func isOf(prefix, name string, all []string) bool {
	return strings.HasPrefix(name, prefix+".") && longerPrefix(prefix, name, all) == ""
}

// readConfigs reads the settings of topics that a plan has. Where one may not be read, the error is
// kafka.TopicAuthorizationFailed.
func readConfigs(ctx context.Context, c *cluster.Client, topics ...string) (map[string]map[string]string, error) {
	all, unread, err := c.TopicConfigs(ctx, topics, MaxMessageBytes, CleanupPolicy, RetentionTime, RetentionBytes, CompactionLag,
		deleteRetention)
	if err == nil && len(unread) > 0 {
		err = kafka.TopicAuthorizationFailed
	}
	return all, err
}

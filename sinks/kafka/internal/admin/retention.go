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
	// tombstoneRetention is for consumers that read from the start, which must reach a tombstone before it is removed.
	tombstoneRetention = 24 * time.Hour

	// These are the settings of topics about retention.

	CleanupPolicy   = "cleanup.policy"
	RetentionTime   = "retention.ms"
	RetentionBytes  = "retention.bytes"
	CompactionLag   = "min.compaction.lag.ms"
	deleteRetention = "delete.retention.ms"
)

// topicPlan is how a missing topic is created.
type topicPlan struct {
	partitions int // 0: Config.Partitions
	config     map[string]string
}

// dataTopic retains every change for the time of the history. After that the topic is compacted, so each live object's last state
// remains for ever. Consumers that start late, and the rebuild of a lost checkpoint, need it. The policy also has delete, without
// limits of time and size, so that an operator can delete records. Kafka refuses that for a topic that is only compacted.
func dataTopic(history time.Duration) topicPlan {
	if history == sinks.Forever {
		return topicPlan{config: map[string]string{CleanupPolicy: "delete", RetentionTime: "-1", RetentionBytes: "-1"}}
	}
	return topicPlan{config: map[string]string{CleanupPolicy: "compact,delete", RetentionTime: "-1", RetentionBytes: "-1",
		CompactionLag: millis(history), deleteRetention: millis(tombstoneRetention)}}
}

// controlTopic has one partition, so that its order is the order of the log. A slot writes only a few records per batch. An
// existing topic may have more partitions. Their number does not change (Config.Pin), and each slot uses one. The topic is not
// compacted, since every batch record counts. It retains records as long as data topics retain every change, and for at least a
// week. An owner that starts after an outage reads them.
func controlTopic(history time.Duration) topicPlan {
	return topicPlan{1, map[string]string{CleanupPolicy: "delete", RetentionTime: millis(max(history, settings.Week)),
		RetentionBytes: "-1"}}
}

// historyTopic retains snapshots on demand, or audit records, for the time of the history. It is not compacted. Otherwise it
// would not show that an object of an earlier snapshot was deleted, and each request for an object counts.
func historyTopic(history time.Duration) topicPlan {
	return topicPlan{config: map[string]string{CleanupPolicy: "delete", RetentionTime: millis(history), RetentionBytes: "-1"}}
}

// deadLetterTopic retains its records until an operator sets a limit, since they are in no other topic.
var deadLetterTopic = topicPlan{config: map[string]string{CleanupPolicy: "delete", RetentionTime: "-1", RetentionBytes: "-1"}}

func millis(d time.Duration) string {
	if d == sinks.Forever {
		return "-1"
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

// difference is how the retention of an existing topic differs from the plan. The sink never changes it. It may be intended, a
// tool may change it back, and deleted records can't be restored.
type difference struct {
	topic      string
	has, asked string // the differing settings
	add        string // the wanted settings for kafka-configs.sh
}

func (p *topicPlan) differs(topic string, has map[string]string) *difference {
	if has[CleanupPolicy] == "" { // there is no right to read the settings
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

// effective returns the settings of a topic that have an effect. A limit of time or size has none without the policy delete.
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

// expires returns an error if Kafka may remove records that must remain. In a data topic these are records that no later record
// replaces, since the log would lose live objects. In any other topic they are all that compaction removes. It returns nil for a
// topic whose settings can't be read.
func (t *Topics) expires(name string, plan *topicPlan, has map[string]string) error {
	limits, d := effective(has), &difference{topic: name}
	switch {
	case has[CleanupPolicy] == "":
		return nil
	case plan != &t.data && limits[CleanupPolicy] == "compact":
		d.add = "cleanup.policy=delete"
		return &cluster.Error{Op: "write to " + name,
			Err:  fmt.Errorf("it has cleanup.policy=%s: %w", has[CleanupPolicy], cluster.ErrExpires),
			Hint: "each of its records counts, and this command retains them:\n" + d.command(t.cfg.Brokers)}
	case plan != &t.data, t.cfg.Expiring:
		return nil
	}
	for _, key := range []string{RetentionTime, RetentionBytes} {
		if limits[key] != "-1" {
			d.has, d.add = strings.TrimSpace(d.has+" "+key+"="+limits[key]), strings.TrimPrefix(d.add+","+key+"=-1", ",")
		}
	}
	if d.has == "" {
		return nil
	}
	return &cluster.Error{Op: "write to " + name, Err: fmt.Errorf("it has cleanup.policy=%s with %s: %w", has[CleanupPolicy],
		d.has, cluster.ErrExpires),
		Hint: "this command removes the limits, and " + expiringSetting + "=accept accepts them:\n" + d.command(t.cfg.Brokers)}
}

func (d *difference) command(brokers []string) string {
	return fmt.Sprintf("kafka-configs.sh --bootstrap-server %s --alter --entity-type topics --entity-name %s --add-config '%s'",
		strings.Join(brokers, ","), d.topic, d.add)
}

// Retention describes each topic of the prefix with another retention than configured.
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
			differences = append(differences, fmt.Sprintf("topic %s has %s; %s asks for %s. It is left as it is; this command "+
				"changes it:\n%s",
				name, d.has, historySetting, d.asked, d.command(a.cfg.Brokers)))
		}
	}
	return differences, nil
}

// isOf reports whether a topic has the prefix, and not a longer one that is in use.
func isOf(prefix, name string, all []string) bool {
	return strings.HasPrefix(name, prefix+".") && longerPrefix(prefix, name, all) == ""
}

// readConfigs reads the settings of topics that a plan has. If it has no right to read a topic's, the error is
// kafka.TopicAuthorizationFailed.
func readConfigs(ctx context.Context, c *cluster.Client, topics ...string) (map[string]map[string]string, error) {
	all, unread, err := c.TopicConfigs(ctx, topics, MaxMessageBytes, CleanupPolicy, RetentionTime, RetentionBytes, CompactionLag,
		deleteRetention)
	if err == nil && len(unread) > 0 {
		err = kafka.TopicAuthorizationFailed
	}
	return all, err
}

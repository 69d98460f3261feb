package kafka_test

import (
	"fmt"
	"testing"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
)

// holeIn demands that a reader finds a hole between two positions, or none.
func holeIn(t *testing.T, cfg kafka.Config, want string) *sinks.Hole {
	t.Helper()
	hole, err := openReader(t, cfg).Hole(servers.Context(t))
	mustDo(t, err)
	found := ""
	if hole != nil {
		for _, c := range hole.Records() {
			found += fmt.Sprint(c.Stream, " ", c.Gap.From, " ", c.Gap.To, " ")
		}
	}
	if hole != nil && found == "" {
		found = "of unknown streams"
	}
	if found != want {
		t.Errorf("the hole is %q, want %q: %v", found, want, hole)
	}
	return hole
}

// A disk loses what is in the middle of a topic. The records after it show that, until gap records explain it. Records that
// compaction may have removed are no hole, and neither is a topic that begins later.
func TestRecordsInTheMiddleAreMissing(t *testing.T) {
	t.Parallel()
	broker := servers.LendKafka(t)
	for _, delivery := range []string{kafka.ExactlyOnce, kafka.AtLeastOnce} {
		for _, c := range []struct{ topic, policy, want string }{
			{"control", "delete", "pods 4 9 "},
			{"control", "compact", "pods 4 9 "},
			{"pods", "delete", "of unknown streams"},
			{"pods", "compact,delete", "of unknown streams"},
		} {
			t.Run(fmt.Sprint(delivery, " ", c.topic, " ", c.policy), func(t *testing.T) {
				cfg := newConfig(t, broker.Brokers)
				cfg.Partitions, cfg.Delivery = 1, delivery
				o := &owner{cfg: cfg}
				position := func(b *change.Batch) {
					b.Positions = []change.Position{{Stream: "pods", ResourceVersion: change.VersionOf(b.Seq)}}
				}
				write := func(n int) {
					mustDo(t, o.open(t))
					for range n {
						o.write(t, 1, position)
					}
				}
				write(7)
				write(7)
				holeIn(t, cfg, "")
				topic := cfg.TopicPrefix + "." + c.topic
				newReader(t, cfg.Brokers).configure(t, topic, "cleanup.policy", c.policy)
				inTheMiddle(t, broker, topic, 5, 5)
				hole := holeIn(t, cfg, c.want)
				if c.topic == "control" {
					newReader(t, cfg.Brokers).configure(t, topic, "cleanup.policy", "delete") // else nothing is written to it
				}
				write(3)
				if hole != nil && c.topic == "control" {
					o.write(t, 0, func(b *change.Batch) { b.Controls = hole.Records() })
					holeIn(t, cfg, "")
				}
			})
		}
	}
}

func inTheMiddle(t *testing.T, broker *servers.Kafka, topic string, after, n int) {
	t.Helper()
	newReader(t, broker.Brokers).settled(t, topic)
	broker.Kill()
	mustDo(t, broker.CutMiddle(topic+"-0", after, n))
	mustDo(t, broker.Start(servers.Context(t)))
}

package kafka_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// rightsWithdrawn withdraws rights while a slot writes. The error names the command that grants the right again. After that
// command the slot goes on, and the log has every change once.
func rightsWithdrawn(t *testing.T, broker *servers.Kafka) {
	ops := func(all ...kadm.ACLOperation) []kadm.ACLOperation { return all }
	all := ops(kadm.OpRead, kadm.OpWrite, kadm.OpCreate)
	rules := []servers.KafkaRule{
		{Topic: ".pods", Operations: ops(kadm.OpWrite)}, {Transactional: "-", Prefixed: true, Operations: ops(kadm.OpWrite)},
		{Topic: ".pods", Operations: ops(kadm.OpRead)}, {Topic: ".pods", Operations: all},
		{Topic: ".control", Operations: ops(kadm.OpWrite)}, {Topic: ".control", Operations: ops(kadm.OpRead)}, {Topic: ".control", Operations: all},
		{Topic: ".dead-letter", Operations: ops(kadm.OpWrite)}, {Topic: ".dead-letter", Operations: all},
	}
	for name, checked := range map[string]int{"exactly-once": 2, "exactly-once by protocol 2": len(rules)} { // the protocols differ in the first two
		configured := inTransactions[name]
		for _, gone := range rules[:checked] {
			t.Run(fmt.Sprintf("%s, %s%s %v", name, gone.Topic, gone.Transactional, gone.Operations), func(t *testing.T) {
				cfg := configured(newConfig(t, broker.SASLBrokers))
				cfg.SASL.Mechanism, cfg.SASL.Username, cfg.SASL.Password = "PLAIN", servers.KafkaUser, servers.KafkaPassword
				for _, topic := range []string{".pods", ".control", ".dead-letter"} {
					mustDo(t, broker.Rule(servers.Context(t), servers.KafkaRule{Topic: cfg.TopicPrefix + topic, Operations: all}))
				}
				mustDo(t, broker.Rule(servers.Context(t), servers.KafkaRule{Transactional: cfg.TopicPrefix + "-", Prefixed: true, Operations: ops(kadm.OpWrite)}))
				if gone.Topic != "" {
					gone.Topic = cfg.TopicPrefix + gone.Topic
				} else {
					gone.Transactional = cfg.TopicPrefix + gone.Transactional
				}
				withdrawn(t, broker, &owner{cfg: cfg}, gone)
			})
		}
	}
}

func withdrawn(t *testing.T, broker *servers.Kafka, o *owner, gone servers.KafkaRule) {
	t.Helper()
	letter := func(b *change.Batch) {
		b.Malformed = append(b.Malformed, change.Malformed{Stream: "pods", Bytes: []byte("{"), Reason: "it does not end"})
	}
	mustDo(t, o.open(t))
	o.write(t, 5, letter)
	mustDo(t, broker.Unrule(servers.Context(t), gone))
	b := o.next(5, letter)
	offsets, err := o.log.Write(servers.Context(t), b)
	if err == nil {
		o.durable(b, offsets)
		err = o.open(t) // only a start needs it
	}
	if err == nil || follow(t, broker, err.Error()) == 0 {
		t.Fatalf("without the right: %v", err)
	}
	mustDo(t, o.open(t))
	o.write(t, 5, letter)
	wantOnce(t, newReader(t, broker.Brokers).committed(t, broker.Brokers, o.cfg.TopicPrefix+".pods"), o.batches...)
}

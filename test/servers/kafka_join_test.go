package servers_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/test/servers"
)

// A partition of two brokers outlives the death of the one that leads it.
func TestTheLeaderMovesWhenItsBrokerIsKilled(t *testing.T) {
	t.Parallel()
	first, err := servers.StartKafka(t.Context(), servers.KafkaOptions{Joined: true})
	check(t, err)
	t.Cleanup(func() { check(t, first.Stop()) })
	second, err := first.Join(t.Context())
	check(t, err)
	t.Cleanup(func() { check(t, second.Stop()) })

	c, topic := kafkaClient(t, first.Brokers), servers.UniqueName()
	_, err = kadm.NewClient(c).CreateTopic(t.Context(), 2, 2, nil, topic) // each broker leads one
	check(t, err)
	ctx, cancel := servers.Patient(t.Context())
	defer cancel()
	produce := func() {
		for p := range int32(2) {
			c := kafkaClient(t, first.Brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
			check(t, c.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: p, Value: []byte("x")}).FirstErr())
		}
	}
	produce()
	second.Kill()
	produce()
}

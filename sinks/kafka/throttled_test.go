package kafka_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/test/servers"
)

// A client's quota delays it for longer than a request may take. The log names the quota, and every change is written once.
func TestAQuotaIsNamed(t *testing.T) {
	t.Parallel()
	broker := servers.SharedKafka(t)
	for quota, value := range map[string]float64{"producer_byte_rate": 1000, "consumer_byte_rate": 10_000} {
		t.Run(quota, func(t *testing.T) {
			t.Parallel()
			said := &lines{}
			cfg := newestConfig(t, broker.Brokers)
			cfg.ClientID, cfg.RequestTimeout, cfg.Compression = cfg.TopicPrefix, 2*time.Second, "none"
			cfg.Logger = slog.New(slog.NewTextHandler(said, nil))
			log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
			batches := []*change.Batch{lives(1, 3, 2), lives(2, 3, 2), lives(3, 3, 2)}
			known := mustWrite(t, log, batches[0])
			throttle(t, broker.Brokers, cfg.ClientID, quota, value)
			mustWrite(t, log, batches[1])
			_, recovered := openLog(t, newSink(t, cfg), 0, 2, sinks.Durable{Seq: 1, Offsets: known})
			if len(recovered) != 1 {
				t.Errorf("recovered %d batches", len(recovered))
			}
			log, _ = openLog(t, newSink(t, cfg), 0, 3, sinks.Durable{})
			mustWrite(t, log, batches[2])
			wantOnce(t, newReader(t, cfg.Brokers).committed(t, cfg.Brokers, cfg.TopicPrefix+".pods"), batches...)
			if !strings.Contains(said.String(), "throttles this client by a quota") {
				t.Errorf("the log says nothing of the quota: %s", said)
			}
		})
	}
}

// throttle sets a quota of a client.
func throttle(t *testing.T, brokers []string, client, quota string, value float64) {
	t.Helper()
	set, err := kadmOf(t, brokers).AlterClientQuotas(servers.Context(t), []kadm.AlterClientQuotaEntry{{
		Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &client}}, Ops: []kadm.AlterClientQuotaOp{{Key: quota, Value: value}}}})
	mustDo(t, err)
	for _, s := range set {
		mustDo(t, s.Err)
	}
}

package kafka_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
)

// The broker soon aborts transactions and expires transactional ids. The writer gets an error with a hint, and a log that is
// opened again goes on.
func TestProducersThatTheBrokerExpires(t *testing.T) {
	t.Parallel()
	broker := startKafka(t, servers.KafkaOptions{Properties: map[string]string{
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
		"transaction.remove.expired.transaction.cleanup.interval.ms":  "200",
		"transactional.id.expiration.ms":                              "6000",
		"transaction.max.timeout.ms":                                  "60000",
	}})
	r := newReader(t, broker.Brokers)
	t.Run("after the timeout", func(t *testing.T) {
		cfg := newConfig(t, broker.Brokers)
		cfg.TransactionTimeout = 5 * time.Second
		log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
		mustDo(t, kafka.WriteUnended(servers.Context(t), log, lives(1, 3, 2)))
		r.settled(t, cfg.TopicPrefix+".control")
		_, err := log.Write(servers.Context(t), lives(1, 3, 2))
		if !errors.Is(err, sinks.ErrInvalidWriter) || !strings.Contains(err.Error(), "KUBECDC_KAFKA_TRANSACTION_TIMEOUT") {
			t.Errorf("Write = %v", err)
		}
		goesOn(t, r, cfg)
	})
	t.Run("after its id has expired", func(t *testing.T) {
		cfg := newConfig(t, broker.Brokers)
		log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
		servers.Await(t, "the broker to forget the producer", func() (bool, error) {
			listed, err := r.admin.ListTransactions(servers.Context(t), nil, nil)
			return len(listed) == 0, err
		})
		_, err := log.Write(servers.Context(t), lives(1, 3, 2))
		if err == nil || errors.Is(err, sinks.ErrInvalidWriter) || !strings.Contains(err.Error(), "has forgotten the producer") {
			t.Errorf("Write = %v", err)
		}
		goesOn(t, r, cfg)
	})
	t.Run("a timeout above the broker's limit", func(t *testing.T) {
		cfg := newConfig(t, broker.Brokers)
		cfg.TransactionTimeout = 2 * time.Minute
		_, err := newSink(t, cfg).Open(servers.Context(t), 0, 1, sinks.Durable{})
		if err == nil || !strings.Contains(err.Error(), "transaction.max.timeout.ms is below KUBECDC_KAFKA_TRANSACTION_TIMEOUT") {
			t.Errorf("Open = %v", err)
		}
	})
}

// goesOn opens the log again and writes the refused batch, which must be in the log once.
func goesOn(t *testing.T, r *reader, cfg kafka.Config) {
	t.Helper()
	log, recovered := openLog(t, newSink(t, cfg), 0, 2, sinks.Durable{})
	if len(recovered) > 0 {
		t.Errorf("recovered %d batches, want none", len(recovered))
	}
	b := lives(1, 3, 2)
	mustWrite(t, log, b)
	wantOnce(t, r.committed(t, cfg.Brokers, cfg.TopicPrefix+".pods"), b)
}

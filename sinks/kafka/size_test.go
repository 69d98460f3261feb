package kafka_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
	"kubecdc/test/sinktest"
)

// A log's size is what the broker's files have. Without the right to describe the cluster it is not known, and a check
// has the command that grants it.
func logSize(t *testing.T, broker *servers.Kafka) {
	cfg := newConfig(t, broker.Brokers)
	sink := newSink(t, cfg)
	log, _ := openLog(t, sink, 0, 1, sinks.Durable{})
	sinktest.WriteNoise(t, log, 6_000)
	user := cfg
	user.Brokers, user.SASL = broker.SASLBrokers, kafka.SASL{Mechanism: "PLAIN", Username: servers.KafkaUser, Password: servers.KafkaPassword}
	reader := openReader(t, user)
	if size, err := reader.LogSize(servers.Context(t), time.Now()); err == nil {
		t.Errorf("for a user who may see no topic the size is %+v", size)
	}
	mustDo(t, broker.Rule(servers.Context(t), servers.KafkaRule{Topic: cfg.TopicPrefix + ".", Prefixed: true, Operations: []kadm.ACLOperation{kadm.OpRead}}))

	describe := servers.KafkaRule{Cluster: true, Operations: []kadm.ACLOperation{kadm.OpDescribe}}
	const grant = "--operation Describe --cluster"
	for _, allowed := range []bool{false, true} {
		if allowed {
			mustDo(t, broker.Rule(servers.Context(t), describe))
			defer func() { mustDo(t, broker.Unrule(servers.Context(t), describe)) }()
		}
		size, err := reader.LogSize(servers.Context(t), time.Now())
		if allowed != (err == nil) {
			t.Fatalf("may describe the cluster: %v: %+v, %v", allowed, size, err)
		}
		checked := newSink(t, user)
		report, _ := checked.Check(servers.Context(t), []change.Resource{podStream.Resource})
		mustDo(t, checked.Close())
		if named := slices.ContainsFunc(report.Warnings, func(w string) bool { return strings.Contains(w, grant) }); named == allowed {
			t.Errorf("may describe the cluster: %v: warnings %q", allowed, report.Warnings)
		}
		if allowed {
			wantFiles(t, size, broker, cfg.TopicPrefix)
		}
	}
}

// wantFiles compares a size with the broker's files.
func wantFiles(t *testing.T, size *change.LogSize, broker *servers.Kafka, prefix string) {
	t.Helper()
	bytes := func(topics string) (sum int64) {
		files, err := filepath.Glob(filepath.Join(broker.Dir, "data", prefix+"."+topics+"-*", "*.log"))
		mustDo(t, err)
		for _, file := range files {
			info, err := os.Stat(file)
			mustDo(t, err)
			sum += info.Size()
		}
		return sum
	}
	if size.Bytes != bytes("*") || size.Bytes < 6<<20 || len(size.Largest) != 3 || size.Daily != 0 {
		t.Errorf("%+v, and the files have %d", size, bytes("*"))
	}
	for i, want := range []string{"configmaps", "events", "pods"} {
		if got := size.Largest[i]; got.Resource != want || got.Bytes != bytes(want) {
			t.Errorf("%d is %+v, want %s of %d", i, got, want, bytes(want))
		}
	}
}

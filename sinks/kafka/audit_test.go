package kafka_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
)

func auditOf(n int, name string) audit.Record {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return audit.Record{ID: fmt.Sprintf("%032x", n), AuditID: fmt.Sprint(n), Time: now, Answered: now, Received: now, Resource: "pods", Namespace: "default",
		Name: name, Verb: "patch", Code: 200, User: "alice"}
}

// A record that another replica, or an earlier process, has written is not written again. A record is on the partition that its
// object has in the object's own topic, in each encoding.
func TestAuditTopic(t *testing.T) {
	t.Parallel()
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	cfg.Encoding = "cloudevents"
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	b := &change.Batch{Epoch: 1, Seq: 1}
	var records []audit.Record
	for i := range 40 {
		b.Changes = append(b.Changes, created(fmt.Sprint("pod-", i), 10+i))
		r := auditOf(i, b.Changes[i].Name)
		r.Namespace = b.Changes[i].Namespace
		records = append(records, r)
	}
	mustWrite(t, log, b)
	one, other := newSink(t, cfg), newSink(t, cfg)
	mustDo(t, one.WriteAudit(servers.Context(t), records[:20]))
	mustDo(t, other.WriteAudit(servers.Context(t), records[:30]))
	mustDo(t, one.WriteAudit(servers.Context(t), records))
	mustDo(t, other.WriteAudit(servers.Context(t), records))
	mustDo(t, newSink(t, cfg).WriteAudit(servers.Context(t), records))

	r := newReader(t, cfg.Brokers)
	partitionOf := map[string]int32{}
	for p, list := range r.committed(t, cfg.Brokers, cfg.TopicPrefix+".pods") {
		for _, record := range list {
			partitionOf[headers(record)["uid"]] = p
		}
	}
	n := 0
	for p, list := range r.committed(t, cfg.Brokers, cfg.TopicPrefix+".audit") {
		for _, record := range list {
			var a audit.Record
			mustDo(t, json.Unmarshal(record.Value, &a))
			if own, there := partitionOf["uid-"+a.Name]; !there || own != p {
				t.Errorf("the record of %s is on partition %d, its object on %d", a.Name, p, own)
			}
			n++
		}
	}
	if n != len(records) {
		t.Errorf("the topic has %d records, want %d", n, len(records))
	}
	ids, err := openReader(t, cfg).Resources(servers.Context(t))
	if err != nil || len(ids) != 1 || ids[0] != "pods" {
		t.Errorf("the log has the resources %v (%v)", ids, err)
	}
}

// A repeat that two replicas wrote in the same instant is read once.
func TestAuditRepeatsAreReadOnce(t *testing.T) {
	t.Parallel()
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	s := newSink(t, cfg)
	records := []audit.Record{auditOf(1, "a"), auditOf(2, "b")}
	mustDo(t, s.WriteAudit(servers.Context(t), records))
	kafka.ForgetAudit(s)
	mustDo(t, s.WriteAudit(servers.Context(t), records))
	n := 0
	for _, list := range newReader(t, cfg.Brokers).committed(t, cfg.Brokers, cfg.TopicPrefix+".audit") {
		n += len(list)
	}
	if n != 4 {
		t.Fatalf("the topic has %d records, want 4", n)
	}
	n = 0
	_, err := openReader(t, cfg).Audits(servers.Context(t), audit.Query{}, func(*audit.Record) error { n++; return nil })
	mustDo(t, err)
	if n != 2 {
		t.Errorf("%d records are read, want 2", n)
	}
}

// A client that delivers events gives up at any moment, and delivers them again. Nothing is lost, and nothing is read twice.
func TestAuditWritesThatAreCutShort(t *testing.T) {
	t.Parallel()
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	s := newSink(t, cfg)
	var records []audit.Record
	cut := 0
	for n := range 60 {
		r := auditOf(n, fmt.Sprint("pod-", n%7))
		records = append(records, r)
		for wait := time.Duration(n) * 100 * time.Microsecond; ; wait *= 2 {
			ctx, cancel := context.WithTimeout(servers.Context(t), wait+time.Microsecond)
			err := s.WriteAudit(ctx, []audit.Record{r})
			cancel()
			if err == nil {
				break
			}
			cut++
			wait += time.Millisecond
		}
	}
	if cut == 0 {
		t.Fatal("no write was cut short")
	}
	read := map[string]int{}
	_, err := openReader(t, cfg).Audits(servers.Context(t), audit.Query{}, func(r *audit.Record) error { read[r.ID]++; return nil })
	mustDo(t, err)
	for _, r := range records {
		if read[r.ID] != 1 {
			t.Errorf("record %s is read %d times", r.ID, read[r.ID])
		}
	}
}

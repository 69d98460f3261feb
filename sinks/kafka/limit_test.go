package kafka_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
)

// huge returns a change of about size bytes, which do not compress.
func huge(name string, rv, size int) change.Change {
	noise := make([]byte, size*3/4)
	rand.Read(noise)
	return change.Change{Stream: podStream, Op: change.Create, Namespace: "default", Name: name, UID: "uid-" + name,
		ResourceVersion: change.ResourceVersion(strconv.Itoa(rv)), After: fmt.Appendf(nil,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"default","uid":"uid-%s","resourceVersion":"%d"},"data":%q}`,
			name, name, rv, base64.StdEncoding.EncodeToString(noise))}
}

// A record above the broker's limit is not lost. The dead-letter topic has it byte for byte, and its topic has a stub. The stream
// goes on, and the next change has the stub as its before-image, whoever writes that.
func TestTooLargeGoesToTheDeadLetterTopic(t *testing.T) {
	for _, delivery := range []string{kafka.ExactlyOnce, kafka.AtLeastOnce} {
		t.Run(delivery, func(t *testing.T) {
			cfg := newConfig(t, servers.SharedKafka(t).Brokers)
			cfg.Delivery = delivery
			s := newSink(t, cfg)
			defer s.Close()
			log, _ := openLog(t, s, 0, 1, sinks.Durable{})
			created := huge("big", 20, 3<<20)
			updated := huge("big", 21, 3<<20)
			updated.Op, updated.Before = change.Update, created.After
			deleted := updated
			deleted.Op, deleted.Before, deleted.After, deleted.ResourceVersion = change.Delete, updated.After, nil, "22"
			b := podBatch(5)
			b.Seq = 1
			b.Changes = append(b.Changes, created, updated, deleted)
			b.Changes = append(b.Changes, pod(seeded(), "big", 30), huge("kept", 31, 3<<20))
			batch := *b
			batch.Changes = slices.Clone(b.Changes)
			mustWrite(t, log, b)

			r := newReader(t, cfg.Brokers)
			records := r.committed(t, cfg.Brokers, cfg.TopicPrefix+".pods")
			wantOnce(t, records, b)
			letters := deadLetters(t, r.committed(t, cfg.Brokers, cfg.TopicPrefix+".dead-letter"))
			wantStubs(t, records, letters, &batch)
			wantRetractable(t, records)
			_, recovered := openLog(t, newSink(t, cfg), 0, 2, sinks.Durable{})
			wantBodies(t, recovered, b, records)
		})
	}
}

// A batch that is not written is as it was, also if it has stubs by then: it may be written later.
func TestABatchThatIsNotWrittenIsAsItWas(t *testing.T) {
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	ctx, cancel := context.WithCancel(t.Context())
	stubs := 0
	cfg.Logger = slog.New(onWarning{slog.DiscardHandler, func() {
		if stubs++; stubs == 2 {
			cancel()
		}
	}})
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	created, updated := huge("big", 20, 3<<20), huge("big", 21, 3<<20)
	updated.Op, updated.Before = change.Update, created.After
	b := &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{created, updated}}
	want := slices.Clone(b.Changes)
	if _, err := log.Write(ctx, b); err == nil || stubs < 2 {
		t.Fatalf("written, with %d stubs: %v", stubs, err)
	}
	for i := range want {
		if got := &b.Changes[i]; !bytes.Equal(got.Before, want[i].Before) || !bytes.Equal(got.After, want[i].After) {
			t.Errorf("change %d has another body", i)
		}
	}
}

// onWarning calls a function with each warning.
type onWarning struct {
	slog.Handler
	do func()
}

func (onWarning) Enabled(context.Context, slog.Level) bool { return true }
func (h onWarning) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn {
		h.do()
	}
	return nil
}

// wantRetractable checks that each record's before-image is the state in the log. A consumer that adds and retracts rows, like
// Flink, then retracts what it has added.
func wantRetractable(t *testing.T, partitions map[int32][]*kgo.Record) {
	t.Helper()
	last := map[string]string{}
	for _, records := range partitions {
		for _, r := range records {
			if r.Value == nil {
				continue
			}
			v := parse(t, r)
			if was := cmp.Or(last[string(r.Key)], "null"); string(v.Before) != was {
				t.Errorf("%s at %s has before %.200s, and the log had %.200s", r.Key, headers(r)["resourceVersion"], v.Before, was)
			}
			last[string(r.Key)] = string(v.After)
		}
	}
}

// An update's two images fit separately and not together. Then they don't fit separately. Then they are small again.
func TestAnObjectThatGrowsAndShrinksIsRetractable(t *testing.T) {
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	cfg.Compression = "none"
	cfg.MaxMessageBytes = 50_000
	var from sinks.Durable
	var before []byte
	for i, size := range []int{30_000, 25_000, 30_000, 60_000, 70_000, 40_000, 1000, 45_000, 1000} {
		log, recovered := openLog(t, newSink(t, cfg), 0, int64(i+1), from)
		for _, r := range recovered { // as the checkpoint would have it
			before = r.Batch.Changes[0].After
			from = sinks.Durable{Seq: r.Batch.Seq, Offsets: from.Offsets.Merge(r.Offsets)}
		}
		c := huge("big", 100+i, size)
		if c.Before = before; i > 0 {
			c.Op = change.Update
		}
		b := &change.Batch{Epoch: int64(i + 1), Seq: uint64(i + 1), Changes: []change.Change{c}}
		offsets := mustWrite(t, log, b)
		if before = b.Changes[0].After; i%2 == 0 { // every other batch is read back
			from = sinks.Durable{Seq: b.Seq, Offsets: from.Offsets.Merge(offsets)}
		}
	}
	wantRetractable(t, newReader(t, cfg.Brokers).committed(t, cfg.Brokers, cfg.TopicPrefix+".pods"))
	_, objects := fold(t, cfg, 100)
	if got := objects["default/big"].After; !bytes.Equal(got, before) || change.IsStub(got) {
		t.Errorf("rebuilt as %.100s, and the log has %.100s", got, before)
	}
}

func seeded() *mathrand.Rand { return mathrand.New(mathrand.NewPCG(1, 2)) }

// deadLetters joins the parts as the documentation says: by the header dead-letter, in order.
func deadLetters(t *testing.T, partitions map[int32][]*kgo.Record) map[string][]byte {
	t.Helper()
	values, parts := map[string][]byte{}, map[string]int{}
	for _, records := range partitions {
		for _, r := range records {
			h := headers(r)
			id := h["dead-letter"]
			if h["part"] != strconv.Itoa(parts[id]) || h["topic"] == "" || h["reason"] == "" || h["op"] == "" {
				t.Errorf("dead letter part headers %v, want part %d", h, parts[id])
			}
			parts[id]++
			values[id] = append(values[id], r.Value...)
			if h["part"] == h["parts"] {
				t.Errorf("part %s of %s", h["part"], h["parts"])
			}
		}
	}
	return values
}

// wantStubs finds the dead letter of each stub, and compares it with the complete record.
func wantStubs(t *testing.T, records map[int32][]*kgo.Record, letters map[string][]byte, b *change.Batch) {
	t.Helper()
	changes := map[string]*change.Change{}
	for i := range b.Changes {
		changes[string(b.Changes[i].ResourceVersion)] = &b.Changes[i]
	}
	stubs := 0
	for _, list := range records {
		for _, r := range list {
			id := headers(r)["dead-letter"]
			if id == "" || r.Value == nil {
				continue
			}
			stubs++
			c, v := changes[headers(r)["resourceVersion"]], parse(t, r)
			if v.Source["dead_letter"] != id || v.Source["error"] == "" {
				t.Errorf("source %v of stub %s", v.Source, id)
			}
			if (c.Before == nil) != (string(v.Before) == "null") || (c.After == nil) != (string(v.After) == "null") {
				t.Errorf("stub %s: before %.50s after %.50s: an image that must be there is null", id, v.Before, v.After)
			}
			value := letters[id]
			if !bytes.Contains(value, c.After) {
				t.Errorf("dead letter %s (%d bytes) lacks the object of %d bytes", id, len(value), len(c.After))
			}
		}
	}
	if stubs != 3 || len(letters) != 3 {
		t.Errorf("%d stubs, %d dead letters, want 3 and 3", stubs, len(letters))
	}
}

// wantBodies checks that what is read back equals the log.
func wantBodies(t *testing.T, recovered []sinks.Recovered, b *change.Batch, partitions map[int32][]*kgo.Record) {
	t.Helper()
	if len(recovered) != 1 || len(recovered[0].Batch.Changes) != len(b.Changes) {
		t.Fatalf("recovered %d batches", len(recovered))
	}
	want := map[string]string{}
	for _, records := range partitions {
		for _, r := range records {
			if r.Value != nil {
				want[headers(r)["resourceVersion"]] = string(parse(t, r).After)
			}
		}
	}
	for _, changes := range [][]change.Change{recovered[0].Batch.Changes, b.Changes} {
		for _, c := range changes {
			if got := cmp.Or(string(c.After), "null"); got != want[string(c.ResourceVersion)] {
				t.Errorf("%s at %s: %.100s, want %.100s", c.Key(), c.ResourceVersion, got, want[string(c.ResourceVersion)])
			}
		}
	}
}

// A large record that compresses below the limit is sent unchanged.
func TestLimitIsOfTheCompressedBatch(t *testing.T) {
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	s := newSink(t, cfg)
	defer s.Close()
	log, _ := openLog(t, s, 0, 1, sinks.Durable{})
	c := pod(seeded(), "wide", 1)
	c.After = fmt.Appendf(nil, `{"data":"%s"}`, bytes.Repeat([]byte("0123456789"), 300_000))
	mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{c}})
	for _, records := range newReader(t, cfg.Brokers).committed(t, cfg.Brokers, cfg.TopicPrefix+".pods") {
		if len(records) != 1 || headers(records[0])["dead-letter"] != "" || !bytes.Contains(records[0].Value, c.After) {
			t.Errorf("%d records, the first with headers %v", len(records), headers(records[0]))
		}
	}
}

// The limit of a topic is lowered while the exporter runs. After a refused batch smaller ones are sent, and only a record that
// does not fit alone goes to the dead-letter topic.
func TestLimitLoweredMeanwhile(t *testing.T) {
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	cfg.Compression = "none"
	s := newSink(t, cfg)
	defer s.Close()
	log, _ := openLog(t, s, 0, 1, sinks.Durable{})
	first := podBatch(3)
	first.Seq = 1
	mustWrite(t, log, first)
	r := newReader(t, cfg.Brokers)
	r.configure(t, cfg.TopicPrefix+".pods", "max.message.bytes", "50000")

	second := podBatch(600)
	second.Seq = 2
	for i := range second.Changes {
		second.Changes[i].ResourceVersion = change.ResourceVersion(strconv.Itoa(1000 + i))
	}
	second.Changes = append(second.Changes, huge("big", 5000, 60_000), huge("fits", 5001, 40_000))
	mustWrite(t, log, second)
	records := r.committed(t, cfg.Brokers, cfg.TopicPrefix+".pods")
	wantOnce(t, records, first, second)
	for _, list := range records {
		for _, rec := range list {
			if id := headers(rec)["dead-letter"]; (id != "") != (headers(rec)["resourceVersion"] == "5000") {
				t.Errorf("record at %s: dead letter %q", headers(rec)["resourceVersion"], id)
			}
		}
	}
}

// Each topic that the sink creates has the configured settings.
func TestSettingsOfNewTopics(t *testing.T) {
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	cfg.TopicConfig = map[string]string{"max.message.bytes": "2000000", "min.insync.replicas": "1"}
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	b := podBatch(3)
	b.Seq = 1
	b.Malformed = []change.Malformed{{Stream: b.Changes[0].Stream.ID(), Reason: "broken", Bytes: []byte("{")}}
	mustWrite(t, log, b)
	r := newReader(t, cfg.Brokers)
	for _, topic := range []string{".pods", ".control", ".dead-letter"} {
		r.awaitConfig(t, cfg.TopicPrefix+topic, "max.message.bytes", "2000000")
	}
}

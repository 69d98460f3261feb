package kafka_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/replay"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
	"kubecdc/test/sinktest"
)

var encodings = []string{"debezium-schema", "cloudevents", "object"} // all others than the default

func TestContractInEachEncoding(t *testing.T) {
	for encoding, delivery := range map[string]string{"debezium-schema": kafka.ExactlyOnce, "cloudevents": kafka.ExactlyOnce, "object": kafka.AtLeastOnce} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			c := fakeCluster(t)
			sinktest.Run(t, func(t *testing.T) sinktest.Place {
				cfg := newConfig(t, c.ListenAddrs())
				cfg.Encoding, cfg.Delivery = encoding, delivery
				p := place(cfg)
				p.NoBefore, p.Brief = encoding == "object", true
				return p
			})
		})
	}
}

// changed returns an object's next change. Without a body it is a delete.
func changed(c change.Change, version int, body string) change.Change {
	next := c
	next.Op, next.Before, next.After, next.ResourceVersion = change.Update, c.After, []byte(body), change.VersionOf(uint64(version))
	if body == "" {
		next.Op, next.After = change.Delete, nil
	}
	return next
}

// A log goes on in another encoding with the same keys, and can be read completely. An encoding with other keys is refused, with
// the checkpoint and without, before anything is written.
func TestALogGoesOnInAnotherEncodingOfTheSameKeys(t *testing.T) {
	cfg := newConfig(t, fakeCluster(t).ListenAddrs())
	a, b, c := created("a", 10), created("b", 11), created("c", 12)
	a2, b2 := changed(a, 20, `{"a":2}`), changed(b, 21, "")
	for epoch, batch := range []struct {
		encoding string
		changes  []change.Change
	}{{"debezium", []change.Change{a, b, c}}, {"cloudevents", []change.Change{a2, b2}},
		{"object", []change.Change{changed(a2, 30, `{"a":3}`), changed(c, 31, "")}}} {
		cfg.Encoding = batch.encoding
		log, recovered := openLog(t, newSink(t, cfg), 0, int64(epoch+1), sinks.Durable{})
		if len(recovered) != epoch {
			t.Errorf("%s recovers %d batches, want %d", batch.encoding, len(recovered), epoch)
		}
		mustWrite(t, log, &change.Batch{Epoch: int64(epoch + 1), Seq: uint64(epoch + 1), Changes: batch.changes})
	}
	var got []string
	mustDo(t, openReader(t, cfg).Changes(servers.Context(t), sinks.Query{}, func(l *sinks.Logged) error {
		got = append(got, fmt.Sprintf("%s %s@%s %d %d", l.Op, l.Name, l.ResourceVersion, len(l.Before), len(l.After)))
		return nil
	}))
	slices.Sort(got)
	n := len(a.After)
	want := []string{fmt.Sprintf("c a@10 0 %d", n), fmt.Sprintf("c b@11 0 %d", n), fmt.Sprintf("c c@12 0 %d", n),
		fmt.Sprintf("d b@21 %d 0", n), "d c@31 0 0", fmt.Sprintf("u a@20 %d 7", n), "u a@30 0 7"}
	if !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
	_, objects := fold(t, cfg, 9)
	wantVersions(t, objects, "a@30")

	cfg.Encoding = "debezium-schema"
	s := newSink(t, cfg)
	for _, from := range []sinks.Durable{{}, {New: true}} {
		var other *sinks.OtherEncodingError
		if err := s.VerifyCluster(servers.Context(t), 0, from); !errors.As(err, &other) || other.Stored != "object" {
			t.Errorf("a check says %v", err)
		}
		if _, err := s.Open(servers.Context(t), 0, 99, from); !errors.As(err, &other) || !strings.Contains(err.Error(), "set KUBECDC_ENCODING=object") {
			t.Errorf("opened with %v", err)
		}
	}
	cfg.Encoding = "object"
	openLog(t, newSink(t, cfg), 0, 10, sinks.Durable{}) // no record of epoch 99 prevents that
}

// The control topic has expired, as after an outage of more than a week, or is lost with the checkpoint. The records of data
// topics still show the encoding. Records of another cluster, and of another log whose prefix begins with this one's, do not
// count.
func TestAnEncodingOfOtherKeysIsRefusedOnceTheControlTopicHasExpired(t *testing.T) {
	broker := fakeCluster(t).ListenAddrs()
	for _, deleted := range []bool{false, true} {
		cfg := newConfig(t, broker)
		nested, neighbour := cfg, cfg
		nested.TopicPrefix, nested.Encoding = cfg.TopicPrefix+".more", "debezium-schema"
		neighbour.Cluster, neighbour.ClusterUID, neighbour.Encoding = "neighbour", "neighbour", "debezium-schema"
		var known change.Offsets
		for _, c := range []kafka.Config{cfg, nested, neighbour} {
			log, _ := openLog(t, newSink(t, c), 0, 1, sinks.Durable{})
			known = known.Merge(mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{created("a", 10)}}))
			mustDo(t, log.Close())
		}
		admin := newReader(t, cfg.Brokers).admin
		if deleted {
			_, err := admin.DeleteTopics(servers.Context(t), cfg.TopicPrefix+".control")
			mustDo(t, err)
		} else {
			ends, err := admin.ListEndOffsets(servers.Context(t), cfg.TopicPrefix+".control")
			mustDo(t, err)
			_, err = admin.DeleteRecords(servers.Context(t), ends.Offsets())
			mustDo(t, err)
		}
		for _, encoding := range []string{"debezium-schema", "cloudevents"} {
			cfg.Encoding = encoding
			for _, from := range []sinks.Durable{{Seq: 1, Offsets: known}, {New: true}} {
				err := newSink(t, cfg).VerifyCluster(servers.Context(t), 0, from)
				var other *sinks.OtherEncodingError
				if refused := errors.As(err, &other); refused != (encoding == "debezium-schema") || err != nil && !refused {
					t.Errorf("%s, deleted: %v, new: %v: %v", encoding, deleted, from.New, err)
				}
			}
		}
		cfg.Encoding = "debezium-schema"
		var other *sinks.OtherEncodingError
		if _, err := newSink(t, cfg).Open(servers.Context(t), 0, 1, sinks.Durable{New: true}); !errors.As(err, &other) || other.Stored != "debezium" {
			t.Errorf("deleted: %v: opened with %v", deleted, err)
		}
	}
}

// A record in the encoding of a newer release is an error, and not left out.
func TestAnUnknownEncodingIsAnError(t *testing.T) {
	cfg := newConfig(t, fakeCluster(t).ListenAddrs())
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{created("a", 10)}})
	client, err := kgo.NewClient(kgo.SeedBrokers(cfg.Brokers...))
	mustDo(t, err)
	t.Cleanup(client.Close)
	newer := &kgo.Record{Topic: cfg.TopicPrefix + ".pods", Key: []byte("k"), Value: []byte("v"), Headers: []kgo.RecordHeader{
		{Key: "op", Value: []byte("u")}, {Key: "stream", Value: []byte("pods")}, {Key: "encoding", Value: []byte("newer")},
		{Key: "slot", Value: []byte("0")}, {Key: "epoch", Value: []byte("1")}, {Key: "batch", Value: []byte("1")}}}
	mustDo(t, client.ProduceSync(servers.Context(t), newer).FirstErr())
	err = openReader(t, cfg).Changes(servers.Context(t), sinks.Query{}, func(*sinks.Logged) error { return nil })
	if err == nil || !strings.Contains(err.Error(), `the encoding "newer"`) {
		t.Errorf("the reader ends with %v", err)
	}
	opened, err := newSink(t, cfg).Open(servers.Context(t), 0, 2, sinks.Durable{New: true})
	mustDo(t, err)
	state, err := opened.Content.State(servers.Context(t), sinks.Selection{Stream: func(change.StreamID) bool { return true }})
	mustDo(t, err)
	_, err = state.Fold(servers.Context(t), func(*change.Change) error { return nil }, func(sinks.Progress) {})
	if err == nil || !strings.Contains(err.Error(), `the encoding "newer"`) {
		t.Errorf("the rebuild ends with %v", err)
	}
}

// In each encoding a stub replaces a record that is too large, and is the object's state in the log. The dead letter is
// Debezium's JSON.
func TestTooLargeInEachEncoding(t *testing.T) {
	for _, encoding := range append(encodings, "avro") {
		t.Run(encoding, func(t *testing.T) {
			cfg := inAvro(newConfig(t, fakeCluster(t).ListenAddrs()), newFakeRegistry(t).URL, &described{})
			cfg.Encoding, cfg.Compression, cfg.MaxMessageBytes = encoding, "none", 50_000
			log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
			big := huge("big", 20, 60_000)
			mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{big, created("small", 21)}})
			letters := deadLetters(t, newReader(t, cfg.Brokers).committed(t, cfg.Brokers, cfg.TopicPrefix+".dead-letter"))
			envelope := change.Envelope{Cluster: cfg.Cluster, Prefix: cfg.TopicPrefix, Version: cfg.Version}
			if want := envelope.AppendValue(nil, &big); len(letters) != 1 || !bytes.Equal(letters[big.ID()], want) {
				t.Errorf("%d dead letters, and the dead letter of the record is %.300s\nwant %.300s", len(letters), letters[big.ID()], want)
			}
			stub, err := change.Stub(big.After)
			mustDo(t, err)
			mustDo(t, openReader(t, cfg).Changes(servers.Context(t), sinks.Query{Name: "big", Namespace: "default"}, func(l *sinks.Logged) error {
				if l.DeadLetter != big.ID() || !bytes.Equal(l.After, stub) {
					t.Errorf("dead letter %q, object %.200s", l.DeadLetter, l.After)
				}
				return nil
			}))
			_, recovered := openLog(t, newSink(t, cfg), 0, 2, sinks.Durable{})
			if got := recovered[0].Batch.Changes; len(got) != 2 || !slices.ContainsFunc(got, func(c change.Change) bool { return bytes.Equal(c.After, stub) }) {
				t.Errorf("recovered %+v", got)
			}
		})
	}
}

// A replay writes original records, tombstones included, each on the partition on which the exporter writes it.
func TestAReplayKeepsTheEncoding(t *testing.T) {
	for _, encoding := range append(encodings, "debezium", "avro") {
		t.Run(encoding, func(t *testing.T) {
			cfg := inAvro(newConfig(t, fakeCluster(t).ListenAddrs()), newFakeRegistry(t).URL, &described{})
			cfg.Encoding, cfg.Partitions = encoding, 5
			log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
			b := &change.Batch{Epoch: 1, Seq: 1}
			for n := range 20 {
				c := created(fmt.Sprint("o", n), 10*n+1)
				b.Changes = append(b.Changes, c, changed(c, 10*n+2, `{"a":1}`), changed(c, 10*n+3, ""))
			}
			mustWrite(t, log, b)
			var changes []sinks.Logged
			mustDo(t, sinktest.Poisoned(openReader(t, cfg)).Changes(servers.Context(t), sinks.Query{}, func(l *sinks.Logged) error {
				changes = append(changes, l.Clone())
				return nil
			}))
			again := cfg
			again.TopicPrefix, again.Encoding = cfg.TopicPrefix+"-again", ""
			to, err := kafka.NewReplay(again)
			mustDo(t, err)
			t.Cleanup(func() { _ = to.Close() })
			mustDo(t, to.Open(servers.Context(t), "r", func(*change.Control) error { return nil }))
			mustDo(t, to.Write(servers.Context(t), changes, &change.Control{Type: change.ControlReplayEnd, Replay: &change.Replay{ID: "r"}}))
			r := newReader(t, cfg.Brokers)
			was, now := r.committed(t, cfg.Brokers, cfg.TopicPrefix+".pods"), r.committed(t, cfg.Brokers, again.TopicPrefix+".pods")
			for p := range was {
				wantReplayed(t, was[p], now[p])
			}
		})
	}
}

// wantReplayed compares the records of one partition.
func wantReplayed(t *testing.T, was, now []*kgo.Record) {
	t.Helper()
	if len(was) != len(now) || len(was) == 0 {
		t.Fatalf("%d records of %d", len(now), len(was))
	}
	for i, w := range was {
		h := headers(now[i])
		delete(h, "replay")
		if !bytes.Equal(w.Key, now[i].Key) || !bytes.Equal(w.Value, now[i].Value) || asJSON(t, headers(w)) != asJSON(t, h) {
			t.Errorf("record %d is %s=%.200s %v\nwas %s=%.200s %v", i, now[i].Key, now[i].Value, h, w.Key, w.Value, headers(w))
		}
	}
}

// The lines of a replay have key and value of each record as JSON in every encoding, and tombstones after deletes.
func TestTheLinesOfAReplayAreJSON(t *testing.T) {
	for _, encoding := range append(encodings, "debezium", "avro") {
		t.Run(encoding, func(t *testing.T) {
			cfg := inAvro(newConfig(t, fakeCluster(t).ListenAddrs()), newFakeRegistry(t).URL, &described{properties: replicas})
			cfg.Encoding = encoding
			log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
			c := avroPod(1, `{"replicas":3,"x":null}`)
			mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{c, changed(c, 2, "")}})
			var lines bytes.Buffer
			run := &replay.Run{Plan: &replay.Plan{ID: "one"}, Log: sinktest.Poisoned(openReader(t, cfg)), Target: replay.NewStream(&lines)}
			mustDo(t, run.Begin(servers.Context(t)))
			mustDo(t, run.Do(servers.Context(t)))
			text := lines.Bytes()
			want := map[bool]int{false: 3, true: 2}[encoding == "object"] // its delete is the tombstone
			if got := bytes.Count(text, []byte("\n")); got != want {
				t.Errorf("%d lines, want %d:\n%s", got, want, text)
			}
			key, first := fmt.Sprintf(`"name":%q`, c.Name), bytes.ReplaceAll(text[:bytes.IndexByte(text, '\n')], []byte(`\"`), []byte(`"`))
			for _, want := range []string{key, string(c.After)} {
				if !bytes.Contains(first, []byte(want)) {
					t.Errorf("the first line has no %s:\n%s", want, text)
				}
			}
		})
	}
}

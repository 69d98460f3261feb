package kafka_test

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/avro"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/encoding/registry"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
)

func TestAvroEvolves(t *testing.T) { avroEvolves(t, newFakeRegistry(t).URL) }

func TestRegistryAcceptsEvolution(t *testing.T) { avroEvolves(t, servers.SharedRegistry(t).URL) }

const (
	replicas = `"replicas": {"type": "integer"}`
	colour   = `"replicas": {"type": "integer"}, "colour": {"type": "string"}`
	renumber = `"replicas": {"type": "string"}`
)

// avroEvolves checks that a schema grows by members that it lacks, also if a member's type has changed. A member that the API
// server does not describe is in _extra, and the API server is not asked each time. A new process continues from the registry's
// schema. All is read back.
func avroEvolves(t *testing.T, url string) {
	d := &described{properties: replicas}
	cfg := inAvro(newConfig(t, fakeCluster(t).ListenAddrs()), url, d)
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	steps := []struct {
		properties, spec string
		want             map[string]any
		asks, grows      int
	}{
		{replicas, `{"replicas":3}`, map[string]any{"replicas": int64(3)}, 1, 1},
		{colour, `{"replicas":4}`, map[string]any{"replicas": int64(4)}, 0, 0},
		{colour, `{"colour":"red"}`, map[string]any{"colour": "red"}, 1, 1},
		{renumber, `{"replicas":"many"}`, map[string]any{"replicas_string": "many"}, 1, 1},
		{renumber, `{"other":[1]}`, map[string]any{"_extra": `{"other":[1]}`}, 1, 0},
		{renumber, `{"other":[2]}`, map[string]any{"_extra": `{"other":[2]}`}, 0, 0},
	}
	var written []change.Change
	for i, step := range steps {
		d.say(step.properties, nil)
		asked, c := d.asked, avroPod(i+1, step.spec)
		written = append(written, c)
		mustWrite(t, log, &change.Batch{Epoch: 1, Seq: uint64(i + 1), Changes: []change.Change{c}})
		if d.asked-asked != step.asks {
			t.Errorf("step %d: the API server was asked %d times, want %d", i, d.asked-asked, step.asks)
		}
	}
	mustDo(t, log.Close())

	d.say(replicas, nil)
	log, recovered := openLog(t, newSink(t, cfg), 0, 2, sinks.Durable{})
	wantRecovered(t, recovered, written)
	mustWrite(t, log, &change.Batch{Epoch: 2, Seq: 7, Changes: []change.Change{avroPod(7, `{"colour":"blue"}`)}})
	steps = append(steps, steps[2])
	steps[6].want, steps[6].grows = map[string]any{"colour": "blue"}, 0
	ids := wantAvro(t, cfg, url, func(i int) map[string]any { return steps[i].want })
	for i := range ids {
		if grew := i == 0 || ids[i] != ids[i-1]; grew != (steps[i].grows > 0) {
			t.Errorf("step %d has schema %d of %v", i, ids[i], ids)
		}
	}
	if recorded := schemaRecords(t, cfg); !slices.Equal(recorded, []int{ids[0], ids[2], ids[3], ids[6]}) {
		t.Errorf("the control records tell of the schemas %v, the records have %v", recorded, ids)
	}
}

// Two processes that write to one topic let its schema grow, each from what the other has registered. A member may have another
// type in each. A subject that somebody has deleted begins again.
func TestTwoProcessesLetASchemaGrow(t *testing.T) {
	r := newFakeRegistry(t)
	first, second := &described{properties: replicas}, &described{properties: replicas}
	cfg := inAvro(newConfig(t, fakeCluster(t).ListenAddrs()), r.URL, first)
	one, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	cfg.Schemas = second
	two, _ := openLog(t, newSink(t, cfg), 1, 1, sinks.Durable{})
	write := func(log sinks.Log, slot int, seq uint64, spec string) {
		t.Helper()
		mustWrite(t, log, &change.Batch{Slot: slot, Epoch: 1, Seq: seq, Changes: []change.Change{avroPod(int(seq)*2+slot, spec)}})
	}
	latest := func(want string) {
		t.Helper()
		if text := r.texts[len(r.texts)-1]; !strings.Contains(text, want) {
			t.Errorf("the latest schema has no %s: %s", want, text)
		}
	}
	write(one, 0, 1, `{"replicas":1}`)
	write(two, 1, 1, `{"replicas":1}`)
	first.say(colour, nil)
	second.say(`"colour": {"type": "integer"}, "size": {"type": "string"}`, nil)
	write(one, 0, 2, `{"colour":"red"}`)
	write(two, 1, 2, `{"colour":5,"size":"s"}`)
	latest(`"name":"colour","type":["null","string"]`)
	latest(`"colour_long"`)
	registered := len(r.texts)
	first.say(colour+`, "size": {"type": "string"}`, nil)
	write(one, 0, 3, `{"size":"m"}`)
	if len(r.texts) != registered {
		t.Errorf("a schema that the registry has was registered again: %s", r.texts[registered])
	}
	clear(r.subjects)
	second.say(`"weight": {"type": "number"}`, nil)
	write(two, 1, 3, `{"weight":1}`)
	latest(`"weight"`)
	latest(`"colour_long"`)
}

// A new registry gives the keys another id. The topic's streams are refused, and nothing is written with another key.
func TestARegistryThatHasLostTheKeysIsRefused(t *testing.T) {
	r := newFakeRegistry(t)
	cfg := inAvro(newConfig(t, fakeCluster(t).ListenAddrs()), r.URL, &described{})
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{avroPod(1, `{}`)}})
	b := &change.Batch{Epoch: 2, Seq: 2, Changes: []change.Change{avroPod(2, `{}`)}}
	subjects := r.subjects
	r.subjects = map[string][]int{}
	s := newSink(t, cfg)
	log, _ = openLog(t, s, 0, 2, sinks.Durable{Seq: 1})
	_, err := log.Write(servers.Context(t), b)
	refusal := refusalOf(t, err)
	if !refusal.Refuses(podStream.Resource) || !strings.Contains(refusal.Err.Error(), "restore the registry") {
		t.Errorf("refused: %v", err)
	}
	if err := refusal.Again(servers.Context(t)); err == nil {
		t.Error("the probe does not compare the keys")
	}
	r.subjects = subjects
	mustDo(t, refusal.Again(servers.Context(t)))
	log, _ = openLog(t, s, 0, 3, sinks.Durable{Seq: 1})
	b.Epoch = 3
	mustWrite(t, log, b)
}

// A resource that is read in another version, for instance after an upgrade of its CRD, is described by that version.
func TestAvroOfAnotherVersion(t *testing.T) {
	d := &described{properties: replicas}
	log, _ := openLog(t, newSink(t, inAvro(newConfig(t, fakeCluster(t).ListenAddrs()), newFakeRegistry(t).URL, d)), 0, 1, sinks.Durable{})
	mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{avroPod(1, `{"replicas":3}`)}})
	newer := avroPod(2, `{"colour":"red"}`)
	resource := newer.Stream.Resource
	resource.Version = "v2"
	newer.Stream = newer.Stream.As(resource)
	d.say(colour, nil)
	mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 2, Changes: []change.Change{newer}})
	if d.version != "v2" {
		t.Errorf("the API server was asked for the schema of %s, and objects are of v2", d.version)
	}
}

func avroPod(rv int, spec string) change.Change {
	c := pod(seeded(), "a", rv)
	c.After = fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":%q,"resourceVersion":"%d"},"spec":%s}`, c.UID, rv, spec)
	return c
}

func wantRecovered(t *testing.T, recovered []sinks.Recovered, want []change.Change) {
	t.Helper()
	if len(recovered) != len(want) {
		t.Fatalf("recovered %d batches, want %d", len(recovered), len(want))
	}
	for i, r := range recovered {
		if got := r.Batch.Changes[0].After; string(got) != string(want[i].After) {
			t.Errorf("recovered %s, want %s", got, want[i].After)
		}
	}
}

// wantAvro reads the records' spec with another library, in order, and returns the ids of their schemas.
func wantAvro(t *testing.T, cfg kafka.Config, url string, want func(i int) map[string]any) (ids []int) {
	t.Helper()
	r, err := registry.New(registry.Options{URLs: []string{url}})
	mustDo(t, err)
	for _, list := range newReader(t, cfg.Brokers).committed(t, cfg.Brokers, cfg.TopicPrefix+".pods") {
		for _, record := range list {
			id := int(binary.BigEndian.Uint32(record.Value[1:]))
			text, err := r.ByID(servers.Context(t), id)
			mustDo(t, err)
			var value map[string]any
			_, err = avro.MustParse(text).Decode(record.Value[5:], &value)
			mustDo(t, err)
			spec := value["after"].(map[string]any)["spec"].(map[string]any)
			for member, v := range spec {
				if v == nil {
					delete(spec, member)
				}
			}
			if i := len(ids); !reflect.DeepEqual(spec, want(i)) {
				t.Errorf("record %d has the spec %v, want %v", i, spec, want(i))
			}
			ids = append(ids, id)
		}
	}
	return ids
}

func schemaRecords(t *testing.T, cfg kafka.Config) (ids []int) {
	t.Helper()
	r, err := kafka.OpenReader(servers.Context(t), cfg)
	mustDo(t, err)
	defer r.Close()
	mustDo(t, r.Controls(servers.Context(t), time.Now().Add(-time.Hour), nil, func(c *change.Control) error {
		if c.Type == change.ControlSchema {
			ids = append(ids, c.Schema.ID)
			if c.Schema.Topic != cfg.TopicPrefix+".pods" || c.Schema.Subject != c.Schema.Topic+"-value" {
				t.Errorf("%+v", c.Schema)
			}
		}
		return nil
	}))
	return ids
}

// A log with known schemas needs no registry: what they lack is in _extra. A new process waits for the registry, to read and to
// write.
func TestAvroWithoutItsRegistry(t *testing.T) {
	r, d := newFakeRegistry(t), &described{properties: replicas}
	cfg := inAvro(newConfig(t, fakeCluster(t).ListenAddrs()), r.URL, d)
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	first, second := avroPod(1, `{"replicas":3}`), avroPod(2, `{"colour":"red"}`)
	mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{first}})
	r.answer(http.StatusServiceUnavailable)
	d.say(colour, nil)
	mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 2, Changes: []change.Change{second}})

	opened, err := newSink(t, cfg).Open(servers.Context(t), 0, 2, sinks.Durable{})
	mustDo(t, err)
	done := make(chan error)
	go func() {
		var all []sinks.Recovered
		err := opened.Tail(servers.Context(t), func(r *sinks.Recovered) error {
			all = append(all, *r)
			return nil
		})
		wantRecovered(t, all, []change.Change{first, second})
		done <- err
	}()
	await(t, r.asked, 2)
	r.answer(0)
	mustDo(t, <-done)
}

// A registry that refuses one resource's schema stops only that resource, until it accepts the schema.
func TestARefusedSchemaRefusesOneResource(t *testing.T) {
	r := newFakeRegistry(t)
	s := newSink(t, inAvro(newConfig(t, fakeCluster(t).ListenAddrs()), r.URL, &described{}))
	log, _ := openLog(t, s, 0, 1, sinks.Durable{})
	r.refuse(http.StatusConflict)
	b := &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{avroPod(1, `{}`)}}
	_, err := log.Write(servers.Context(t), b)
	refusal := refusalOf(t, err)
	if !refusal.Refuses(podStream.Resource) || refusal.Refuses(nodeStream.Resource) || !strings.Contains(refusal.Err.Error(), "pods-key") {
		t.Errorf("refused: %v", err)
	}
	if err := refusal.Again(servers.Context(t)); err == nil {
		t.Error("the probe does not ask the registry")
	}
	r.refuse(0)
	mustDo(t, refusal.Again(servers.Context(t)))
	log, _ = openLog(t, s, 0, 2, sinks.Durable{})
	b.Epoch = 2
	mustWrite(t, log, b)
}

// Check names the subject that the registry refuses, and registers nothing.
func TestCheckOfTheRegistry(t *testing.T) {
	r := newFakeRegistry(t)
	check := func() error {
		s := newSink(t, inAvro(newConfig(t, fakeCluster(t).ListenAddrs()), r.URL, &described{}))
		_, err := s.Check(servers.Context(t), []change.Resource{podStream.Resource})
		return err
	}
	mustDo(t, check())
	r.foreign = "-key"
	if err := check(); err == nil || !strings.Contains(err.Error(), ".pods-key") {
		t.Errorf("a subject with somebody else's keys: %v", err)
	}
	r.foreign = ""
	for status, want := range map[int]string{http.StatusConflict: "delete the subject", http.StatusUnauthorized: "KUBECDC_SCHEMA_REGISTRY_USERNAME"} {
		r.answer(status)
		if err := check(); err == nil || !strings.Contains(err.Error(), ".pods-value") || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v, want %q", status, err, want)
		}
	}
	if len(r.texts) > 0 {
		t.Errorf("a check registers %d schemas", len(r.texts))
	}
}

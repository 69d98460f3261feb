package encoding

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"kubecdc/change"
	"kubecdc/sinks/encoding/avro"
	"kubecdc/sinks/encoding/registry"
)

// Avro is the name of the encoding with a schema registry.
const Avro = "avro"

// AvroOptions are the options of Avro.
type AvroOptions struct {
	Registry *registry.Registry // nil: there is none, so records can't be written or read
	Schemas  Schemas            // nil: records are only read
	Logger   *slog.Logger
	// Await repeats an attempt to read or register a schema, while the caller waits for it. An error that would come again is
	// registry.Refused.
	Await func(ctx context.Context, op string, attempt func(context.Context) error) error
	// LastKey returns the key of a topic's last record in Avro, or nil.
	LastKey func(ctx context.Context, topic string) ([]byte, error)
}

// Schemas returns the Avro schemas of records.
type Schemas interface {
	// Key returns the schema of a topic's keys, which never changes.
	Key(topic string) string
	// Value returns the schema of the values in the topic of a resource, as the API server describes its objects now.
	Value(ctx context.Context, topic string, resource change.Resource) (string, error)
}

// avroEncoding is change.Envelope's JSON in Avro, in the wire format of Confluent's serializers. That is a zero byte, the id of
// the schema in the registry in four bytes, and Avro's binary encoding
// (https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format).
type avroEncoding struct {
	AvroOptions
	mu     sync.Mutex
	topics map[string]*topicSchemas
	byID   map[int]*avro.Schema
}

func newAvro(o AvroOptions) Encoding {
	return &avroEncoding{AvroOptions: o, topics: map[string]*topicSchemas{}, byID: map[int]*avro.Schema{}}
}

func (*avroEncoding) Name() string { return Avro }

func (*avroEncoding) Keys() string { return Avro }

// wirePrefix is the length of what precedes Avro's bytes.
const wirePrefix = 5

func appendPrefix(dst []byte, id int) []byte {
	return binary.BigEndian.AppendUint32(append(dst, 0), uint32(id))
}

// cutPrefix returns the id of the schema, and Avro's bytes.
func cutPrefix(wire []byte) (id int, encoded []byte, err error) {
	if len(wire) < wirePrefix || wire[0] != 0 {
		return 0, nil, fmt.Errorf("%.40q is not in the wire format of a schema registry", wire)
	}
	return int(binary.BigEndian.Uint32(wire[1:])), wire[wirePrefix:], nil
}

// DecodeKey needs no registry, since the schema of keys never changes. It has three strings.
func (*avroEncoding) DecodeKey(key []byte) (k Key, err error) {
	_, encoded, err := cutPrefix(key)
	for _, part := range []*string{&k.Cluster, &k.Namespace, &k.Name} {
		size, n := binary.Varint(encoded)
		if n <= 0 || size < 0 || size > int64(len(encoded)-n) {
			err = errors.Join(err, fmt.Errorf("decode record key %.80q: not a key of kubecdc's", key))
			break
		}
		*part, encoded = string(encoded[n:n+int(size)]), encoded[n+int(size):]
	}
	return k, err
}

func appendAvroString(dst []byte, text string) []byte {
	return append(binary.AppendVarint(dst, int64(len(text))), text...)
}

func (a *avroEncoding) Decode(ctx context.Context, value []byte, _ map[string]string) (Decoded, error) {
	id, encoded, err := cutPrefix(value)
	if err != nil {
		return Decoded{}, err
	}
	s, err := a.schema(ctx, id)
	if err != nil {
		return Decoded{}, err
	}
	value, err = s.Decode(nil, encoded)
	if err != nil {
		return Decoded{}, fmt.Errorf("schema %d: %w", id, err)
	}
	d, err := decodeEnvelope(value)
	d.JSON = value
	return d, err
}

// schema returns the schema with an id, which never changes.
func (a *avroEncoding) schema(ctx context.Context, id int) (*avro.Schema, error) {
	if a.Registry == nil {
		return nil, errors.New("records of the log are in Avro: set KUBECDC_SCHEMA_REGISTRY_URL to the registry that has their " +
			"schemas")
	}
	a.mu.Lock()
	known := a.byID[id]
	a.mu.Unlock()
	if known != nil {
		return known, nil
	}
	var text string
	err := a.Await(ctx, "read the schema of records", func(ctx context.Context) (err error) {
		text, err = a.Registry.ByID(ctx, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	s, err := avro.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("schema %d of the registry: %w", id, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byID[id] = s
	return s, nil
}

// avroEncoder encodes the changes of a batch before the batch is written, when it can still wait for the registry, and fail.
type avroEncoder struct {
	all      *avroEncoding
	envelope change.Envelope
	topics   map[*change.Stream]*topicSchemas
	schemas  map[*topicSchemas]schemas // for this batch
	prepared map[*change.Change]preparedValue
	arena    []byte // all prepared values
	record   []byte
	json     []byte // JSON of one value
	key      []byte
	value    [1][]byte
	again    []byte // a value that was encoded again
}

// preparedValue is the place of a change's value in the arena, and its images, which may be replaced by stubs later.
type preparedValue struct {
	start, end    int
	before, after []byte
}

func (a *avroEncoding) NewEncoder(e change.Envelope) Encoder {
	return &avroEncoder{all: a, envelope: e, topics: map[*change.Stream]*topicSchemas{}, schemas: map[*topicSchemas]schemas{},
		prepared: map[*change.Change]preparedValue{}}
}

func (*avroEncoder) Overhead() int { return 0 }

// Prepare returns a control record for each topic whose values have another schema than before.
func (e *avroEncoder) Prepare(ctx context.Context, changes []change.Change) (controls []change.Control, err error) {
	e.arena = e.arena[:0]
	unknown := map[*topicSchemas]string{}
	var lacking []*change.Change
	for i := range changes {
		c := &changes[i]
		t, err := e.topicOf(ctx, c.Stream, &controls)
		if err != nil {
			return nil, err
		}
		if missing := e.prepare(c, t); missing != "" {
			unknown[t], lacking = missing, append(lacking, c)
		}
	}
	for t, member := range unknown {
		if s, grown := t.lacks(ctx, e.schemas[t], member); grown {
			e.use(t, s, &controls)
		} else {
			delete(unknown, t)
		}
	}
	for _, c := range lacking {
		if t := e.topics[c.Stream]; unknown[t] != "" {
			e.prepare(c, t)
		}
	}
	return controls, nil
}

func (e *avroEncoder) Done() { clear(e.prepared) }

// topicOf returns the schemas of a stream's topic.
func (e *avroEncoder) topicOf(ctx context.Context, s *change.Stream, controls *[]change.Control) (*topicSchemas, error) {
	if t := e.topics[s]; t != nil {
		return t, nil
	}
	t := e.all.topic(change.Topic(e.envelope.Prefix, s.Resource), *s.Objects())
	var found schemas
	err := e.all.Await(ctx, "get the schemas of topic "+t.topic, func(ctx context.Context) (err error) {
		found, err = t.open(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	e.topics[s] = t
	e.use(t, found, controls)
	return t, nil
}

// use writes the topic's values with a schema from now on, and adds a control record that says so.
func (e *avroEncoder) use(t *topicSchemas, s schemas, controls *[]change.Control) {
	if e.schemas[t].value != s.value {
		*controls = append(*controls, change.SchemaControl(change.SchemaRecord{Topic: t.topic, Subject: t.subject(),
			ID: s.valueID}))
	}
	e.schemas[t] = s
}

// prepare encodes a change, and returns a member that the schema lacks.
func (e *avroEncoder) prepare(c *change.Change, t *topicSchemas) (unknown string) {
	start := len(e.arena)
	e.arena, unknown = e.append(e.arena, c, t, nil)
	e.prepared[c] = preparedValue{start, len(e.arena), c.Before, c.After}
	return unknown
}

// append appends a change's value to dst.
func (e *avroEncoder) append(dst []byte, c *change.Change, t *topicSchemas, dead *change.DeadLetter) ([]byte, string) {
	value := e.envelope.Value(e.record[:0], c, dead)
	e.record = value.Metadata()
	e.json = value.AppendTo(e.json[:0])
	s := e.schemas[t]
	return s.value.Encode(appendPrefix(dst, s.valueID), e.json)
}

func (e *avroEncoder) Encode(r *Record, c *change.Change, dead *change.DeadLetter) {
	t := e.topics[c.Stream]
	e.key = appendPrefix(e.key[:0], e.schemas[t].keyID)
	for _, part := range []string{e.envelope.Cluster, c.Namespace, c.Name} {
		e.key = appendAvroString(e.key, part)
	}
	r.Key = e.key
	p := e.prepared[c]
	e.value[0] = e.arena[p.start:p.end]
	if dead != nil || !same(p.before, c.Before) || !same(p.after, c.After) {
		e.again, _ = e.append(e.again[:0], c, t, dead)
		e.value[0] = e.again
	}
	r.Value = e.value[:]
}

// same reports whether two images are the same bytes in memory.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || bytes.Equal(a, b))
}

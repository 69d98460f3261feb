package encoding

import (
	"context"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// plainKeys is the part of encodings with PlainKeys.
type plainKeys struct{}

func (plainKeys) Keys() string { return PlainKeys }

func (plainKeys) DecodeKey(key []byte) (k Key, err error) {
	k.Cluster, k.Namespace, k.Name, err = change.DecodeKey(key)
	return k, err
}

// debezium is change.Envelope's JSON. The images are not copied.
type debezium struct{ plainKeys }

func (debezium) Name() string { return Debezium }

func (debezium) NewEncoder(e change.Envelope) Encoder { return &debeziumEncoder{envelope: e} }

func (debezium) Decode(_ context.Context, value []byte, _ map[string]string) (Decoded, error) {
	return decodeEnvelope(value)
}

func decodeEnvelope(value []byte) (Decoded, error) {
	v, err := change.Decode(value)
	return Decoded{Before: v.Before, After: v.After, Managers: managersOf(v.Source)}, err
}

// managersOf returns source.managers.
func managersOf(source []byte) string {
	managers, _ := rawjson.Text(rawjson.Member(source, "managers"))
	return managers
}

type debeziumEncoder struct {
	envelope change.Envelope
	value    change.Value
	about    []byte
}

func (e *debeziumEncoder) Overhead() int { return 0 }

func (e *debeziumEncoder) Encode(r *recordbatch.Record, c *change.Change, dead *change.DeadLetter) {
	e.value = e.envelope.Value(e.about[:0], c, dead)
	e.about = e.value.About()
	r.Value = e.value[:]
}

package encoding

import (
	"context"
	"strconv"
	"time"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
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
	return Decoded{Before: v.Before, After: v.After, Provenance: provenanceOf(v.Source)}, err
}

// provenanceOf reads from source what the object records about its change.
func provenanceOf(source []byte) change.Provenance {
	text := func(member string) string {
		text, _ := rawjson.Text(rawjson.Member(source, member))
		return text
	}
	return provenance(string(rawjson.Member(source, "ts_ms")), text("ts_from"), text("managers"), text("fieldsChanged"))
}

// provenance makes a Provenance of texts. A time from the exporter is when it saw the change.
func provenance(ms, from, managers, fields string) (p change.Provenance) {
	if t, err := strconv.ParseInt(ms, 10, 64); err == nil && from != "" && change.TimeSource(from) != change.FromExporter {
		p.Time, p.Source = time.UnixMilli(t), change.TimeSource(from)
	}
	if managers != "" {
		p.Managers = []byte(managers)
	}
	if fields != "" {
		p.Fields = []byte(fields)
	}
	return p
}

type debeziumEncoder struct {
	envelope change.Envelope
	value    change.Value
	record   []byte
}

func (e *debeziumEncoder) Overhead() int { return 0 }

func (e *debeziumEncoder) Encode(r *Record, c *change.Change, dead *change.DeadLetter) {
	e.value = e.envelope.Value(e.record[:0], c, dead)
	e.record = e.value.Metadata()
	r.Value = e.value[:]
}

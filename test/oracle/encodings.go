package oracle

import (
	"encoding/json"
	"fmt"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
)

// Encodings has what parses the records, by the header.
var Encodings = map[string]func(*kgo.Record) (Record, error){
	"": ParsePlain, "debezium-schema": parseWithSchema, "cloudevents": parseEvent, "object": parseObject,
}

// Parse parses a record of any encoding, by its header.
func Parse(r *kgo.Record) (Record, error) {
	parse := Encodings[header(r, change.HeaderEncoding)]
	if parse == nil {
		return Record{}, fmt.Errorf("encoding %q", header(r, change.HeaderEncoding))
	}
	out, err := parse(r)
	out.Topic, out.Partition, out.Offset, out.Gap = r.Topic, r.Partition, r.Offset, header(r, change.HeaderGap)
	return out, err
}

// ParsePlain parses a record of the default encoding.
func ParsePlain(r *kgo.Record) (out Record, err error) {
	key := struct{ Cluster, Namespace, Name string }{}
	if err := json.Unmarshal(r.Key, &key); err != nil {
		return out, err
	}
	out.Key = change.ObjectKey(key.Namespace, key.Name)
	if r.Value == nil {
		return out, nil
	}
	value := struct {
		Before, After json.RawMessage
		Op            string
		Source        struct {
			UID             string
			ResourceVersion change.ResourceVersion
			Inferred        bool
			Provenance
		}
	}{}
	if err := json.Unmarshal(r.Value, &value); err != nil {
		return out, err
	}
	out.Op, out.UID, out.Version, out.Inferred = value.Op, value.Source.UID, value.Source.ResourceVersion, value.Source.Inferred
	out.Provenance = value.Source.Provenance
	out.Before, out.After = value.Before, value.After
	return out, nil
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

func parseEvent(r *kgo.Record) (Record, error) {
	plain := &kgo.Record{Key: r.Key}
	if r.Value != nil {
		var e event.Event
		if err := json.Unmarshal(r.Value, &e); err != nil {
			return Record{}, err
		}
		if err := e.Validate(); err != nil {
			return Record{}, err
		}
		plain.Value = e.Data()
	}
	return ParsePlain(plain)
}

func parseObject(r *kgo.Record) (Record, error) {
	out, err := ParsePlain(&kgo.Record{Key: r.Key})
	out.Op, out.UID, out.Version = header(r, change.HeaderOp), header(r, change.HeaderUID), change.ResourceVersion(header(r, change.HeaderResourceVersion))
	out.After, out.Bare = r.Value, true
	if (out.Op == "d") != (r.Value == nil) {
		err = fmt.Errorf("op %s with the value %.80s", out.Op, r.Value)
	}
	return out, err
}

func parseWithSchema(r *kgo.Record) (out Record, err error) {
	plain := &kgo.Record{}
	var message struct {
		Schema  json.RawMessage
		Payload json.RawMessage
	}
	if err := json.Unmarshal(r.Key, &message); err != nil {
		return out, err
	}
	if plain.Key = message.Payload; r.Value == nil {
		return ParsePlain(plain)
	}
	if err := json.Unmarshal(r.Value, &message); err != nil {
		return out, err
	}
	plain.Value = message.Payload
	if out, err = ParsePlain(plain); err != nil {
		return out, err
	}
	for _, image := range []*json.RawMessage{&out.Before, &out.After} {
		var row struct{ Object *string }
		if err := json.Unmarshal(*image, &row); err != nil {
			return out, err
		}
		if *image = nil; row.Object != nil {
			*image = json.RawMessage(*row.Object)
		}
	}
	return out, nil
}

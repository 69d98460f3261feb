package e2e

import (
	"encoding/json"
	"fmt"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
)

// encodings has what parses the records, by the header.
var encodings = map[string]func(*kgo.Record) (Record, error){
	"": parsePlain, "debezium-schema": parseWithSchema, "cloudevents": parseEvent, "object": parseObject,
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
	return parsePlain(plain)
}

func parseObject(r *kgo.Record) (Record, error) {
	out, err := parsePlain(&kgo.Record{Key: r.Key})
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
		return parsePlain(plain)
	}
	if err := json.Unmarshal(r.Value, &message); err != nil {
		return out, err
	}
	plain.Value = message.Payload
	if out, err = parsePlain(plain); err != nil {
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

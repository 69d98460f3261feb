package encoding

import (
	"context"
	"strconv"

	"kubecdc/change"
)

// object is the object alone; a delete is null. There is no before, and the headers have what source has.
type object struct{ plainKeys }

func (object) Name() string { return "object" }

func (object) NewEncoder(change.Envelope) Encoder { return &objectEncoder{} }

func (object) Decode(_ context.Context, value []byte, headers map[string]string) (Decoded, error) {
	return Decoded{After: value, Provenance: provenance(headers[headerTime], headers[headerTimeFrom], headers[headerManagers],
		headers[headerFieldsChanged])}, nil
}

// The headers of an object's record, besides those of all records.
const (
	headerAPIVersion    = "apiVersion"
	headerKind          = "kind"
	headerTime          = "ts_ms" // when the change happened; the record has when the exporter saw it
	headerTimeFrom      = "ts_from"
	headerManagers      = "managers"
	headerFieldsChanged = "fieldsChanged"
	headerError         = "error"
)

type objectEncoder struct {
	value [1][]byte
}

func (e *objectEncoder) Overhead() int { return 0 }

func (e *objectEncoder) Encode(r *Record, c *change.Change, dead *change.DeadLetter) {
	e.value[0] = c.After
	r.Value, r.Tombstone = e.value[:], c.After == nil
	resource := c.Stream.Objects()
	r.addHeader(headerAPIVersion, resource.APIVersion())
	r.addHeader(headerKind, resource.Kind)
	happened, from := c.Happened()
	r.addHeader(headerTime, strconv.FormatInt(happened.UnixMilli(), 10))
	r.addHeader(headerTimeFrom, string(from))
	r.addSomeHeader(headerManagers, string(c.Provenance.Managers))
	r.addSomeHeader(headerFieldsChanged, string(c.Provenance.Fields))
	if dead != nil {
		r.addHeader(headerError, dead.Error)
	}
}

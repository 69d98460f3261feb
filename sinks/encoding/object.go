package encoding

import (
	"context"
	"strconv"

	"kubecdc/change"
)

// object is the object alone, and null for a delete. There is no before-image. The headers have the content of source.
type object struct{ plainKeys }

func (object) Name() string { return "object" }

func (object) NewEncoder(change.Envelope) Encoder { return &objectEncoder{} }

func (object) Decode(_ context.Context, value []byte, headers map[string]string) (Decoded, error) {
	return Decoded{After: value, Provenance: provenance(headers[headerTime], headers[headerTimeFrom], headers[headerManagers],
		headers[headerFieldsChanged])}, nil
}

// These are the headers of an object's record, in addition to the common headers.
const (
	headerAPIVersion    = "apiVersion"
	headerKind          = "kind"
	headerTime          = "ts_ms" // when the change happened (the record's time is when the exporter saw it)
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

package change

import (
	"strconv"
	"time"
)

// Envelope encodes changes as records: JSON as Debezium writes it, without schema
// (https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-events). The before- and after-images
// are the API server's own bytes, and are never decoded.
type Envelope struct {
	Cluster string // source.db
	Prefix  string // source.name, the first part of every topic
	Version string // kubecdc's, source.version
}

// Value is the value of a record in pieces, so that the writer copies the images only once.
type Value [5][]byte

var (
	valueBefore = []byte(`{"before":`)
	valueAfter  = []byte(`,"after":`)
	null        = []byte(`null`)
)

// DeadLetter is the reason why a record has stubs for its images: the complete record was not accepted, and is in the dead-letter
// topic.
type DeadLetter struct {
	ID    string // header "dead-letter" of its parts
	Error string
}

// AppendKey appends the key of the change's record to dst.
func (e *Envelope) AppendKey(dst []byte, c *Change) []byte {
	dst = append(dst, `{"cluster":`...)
	dst = AppendString(dst, e.Cluster)
	dst = append(dst, `,"namespace":`...)
	dst = AppendString(dst, c.Namespace)
	dst = append(dst, `,"name":`...)
	dst = AppendString(dst, c.Name)
	return append(dst, '}')
}

// AppendValue appends the value of the change's record to dst.
func (e *Envelope) AppendValue(dst []byte, c *Change) []byte {
	v := e.Value(nil, c, nil)
	return v.AppendTo(dst)
}

// Value returns the value of the change's record in pieces. All but the images is appended to scratch, which the value then
// refers to. If dead is not nil, source has its id and error.
func (e *Envelope) Value(scratch []byte, c *Change, dead *DeadLetter) Value {
	return Value{valueBefore, OrNull(c.Before), valueAfter, OrNull(c.After), e.appendTail(scratch, c, dead)}
}

// Metadata returns the members after the images: op, the times and source.
func (v *Value) Metadata() []byte { return v[len(v)-1] }

// Len is the length of the value in bytes.
func (v *Value) Len() int {
	n := 0
	for _, piece := range v {
		n += len(piece)
	}
	return n
}

// AppendTo appends the value to dst.
func (v *Value) AppendTo(dst []byte) []byte {
	for _, piece := range v {
		dst = append(dst, piece...)
	}
	return dst
}

// OrNull returns an image as JSON, or null if there is no image.
func OrNull(image []byte) []byte {
	if image == nil {
		return null
	}
	return image
}

// appendTail appends op, the times and source. All members of source are scalars, since Flink reads it as a map of strings.
func (e *Envelope) appendTail(dst []byte, c *Change, dead *DeadLetter) []byte {
	happened, from := c.Happened()
	dst = append(dst, `,"op":"`...)
	dst = append(dst, byte(c.Op), '"')
	dst = appendTimes(dst, c.Time)
	dst = append(dst, `,"source":{"version":`...)
	dst = AppendString(dst, e.Version)
	dst = append(dst, `,"connector":"kubernetes"`...)
	dst = appendField(dst, "name", e.Prefix)
	dst = appendTimes(dst, happened)
	dst = appendField(dst, "ts_from", string(from))
	dst = append(dst, `,"snapshot":"`...)
	dst = strconv.AppendBool(dst, c.Op == Read)
	dst = append(dst, '"')
	dst = appendField(dst, "db", e.Cluster)
	dst = appendField(dst, "schema", c.Namespace)
	dst = append(dst, c.Stream.fields...)
	dst = appendField(dst, "uid", c.UID)
	dst = appendField(dst, "resourceVersion", string(c.ResourceVersion))
	dst = appendSequence(dst, c)
	dst = appendField(dst, "stream", string(c.Stream.ID()))
	return append(appendOptional(dst, c, dead), "}}"...)
}

// appendTimes appends a time as Debezium has it, in three units.
func appendTimes(dst []byte, t time.Time) []byte {
	dst = strconv.AppendInt(append(dst, `,"ts_ms":`...), t.UnixMilli(), 10)
	dst = strconv.AppendInt(append(dst, `,"ts_us":`...), t.UnixMicro(), 10)
	return strconv.AppendInt(append(dst, `,"ts_ns":`...), t.UnixNano(), 10)
}

// appendSequence appends the field that orders the changes of one key. As in Debezium, it is a string with a JSON array of
// strings. An inferred delete has the resourceVersion of the object's last change, and comes after it.
func appendSequence(dst []byte, c *Change) []byte {
	dst = append(dst, `,"sequence":"[\"`...)
	dst = append(dst, c.ResourceVersion...)
	if c.Op == Delete && c.Inferred {
		return append(dst, `\",\"1\"]"`...)
	}
	return append(dst, `\",\"0\"]"`...)
}

func appendOptional(dst []byte, c *Change, dead *DeadLetter) []byte {
	if c.Inferred {
		dst = append(dst, `,"inferred":true`...)
	}
	if c.Gap != "" {
		dst = appendField(dst, "gap", c.Gap)
	}
	if len(c.Provenance.Managers) > 0 {
		dst = appendField(dst, "managers", c.Provenance.Managers)
	}
	if len(c.Provenance.Fields) > 0 {
		dst = appendField(dst, "fieldsChanged", c.Provenance.Fields)
	}
	if dead != nil {
		dst = appendField(dst, "dead_letter", dead.ID)
		dst = appendField(dst, "error", dead.Error)
	}
	return dst
}

// appendResource appends the members of source that describe the resource.
func appendResource(dst []byte, r *Resource) []byte {
	dst = appendField(dst, "table", r.Plural)
	dst = appendField(dst, "group", r.Group)
	dst = appendField(dst, "apiVersion", r.APIVersion())
	return appendField(dst, "kind", r.Kind)
}

// appendField appends ,"name":"value". The name must not need escaping.
func appendField[T string | []byte](dst []byte, name string, value T) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return AppendString(dst, value)
}

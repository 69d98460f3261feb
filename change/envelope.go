package change

import "strconv"

// Envelope makes the records that consumers read: JSON as Debezium writes it, without a schema wrapper
// (https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-events). The
// server's own bytes are spliced in; no body is ever decoded.
type Envelope struct {
	Cluster string // source.db
	Prefix  string // source.name, the first part of every topic
	Version string // kubecdc's, source.version
}

// Value is the value of a record in pieces, so that whoever writes it copies the bodies only once.
type Value [5][]byte

var (
	valueBefore = []byte(`{"before":`)
	valueAfter  = []byte(`,"after":`)
	null        = []byte(`null`)
)

// DeadLetter says that an image was left out of a record, because the whole record was not accepted, and that
// it stands in the dead-letter topic.
type DeadLetter struct {
	ID    string // the header "dead-letter" of its parts
	Error string
}

// AppendKey appends the record's key. A cluster-scoped object has an empty namespace.
func (e *Envelope) AppendKey(dst []byte, c *Change) []byte {
	dst = append(dst, `{"cluster":`...)
	dst = appendString(dst, e.Cluster)
	dst = append(dst, `,"namespace":`...)
	dst = appendString(dst, c.Namespace)
	dst = append(dst, `,"name":`...)
	dst = appendString(dst, c.Name)
	return append(dst, '}')
}

// AppendValue appends the record's value.
func (e *Envelope) AppendValue(dst []byte, c *Change) []byte {
	dst = append(dst, valueBefore...)
	dst = append(dst, orNull(c.Before)...)
	dst = append(dst, valueAfter...)
	dst = append(dst, orNull(c.After)...)
	return e.appendTail(dst, c, nil)
}

// Value gives the record's value in pieces; all but the bodies is made in scratch, which the value holds on to.
// With a dead letter, its id and error are noted in source.
func (e *Envelope) Value(scratch []byte, c *Change, dead *DeadLetter) Value {
	return Value{valueBefore, orNull(c.Before), valueAfter, orNull(c.After), e.appendTail(scratch, c, dead)}
}

// Len is the length of the whole value.
func (v *Value) Len() int {
	n := 0
	for _, piece := range v {
		n += len(piece)
	}
	return n
}

// AppendTo appends the whole value.
func (v *Value) AppendTo(dst []byte) []byte {
	for _, piece := range v {
		dst = append(dst, piece...)
	}
	return dst
}

func orNull(image []byte) []byte {
	if image == nil {
		return null
	}
	return image
}

// appendTail writes op, ts_ms and source. Everything in source is a scalar, as Flink reads it as a map of
// strings.
func (e *Envelope) appendTail(dst []byte, c *Change, dead *DeadLetter) []byte {
	ms := c.Time.UnixMilli()
	dst = append(dst, `,"op":"`...)
	dst = append(dst, byte(c.Op))
	dst = append(dst, `","ts_ms":`...)
	dst = strconv.AppendInt(dst, ms, 10)
	dst = append(dst, `,"source":{"version":`...)
	dst = appendString(dst, e.Version)
	dst = append(dst, `,"connector":"kubernetes"`...)
	dst = appendField(dst, "name", e.Prefix)
	dst = append(dst, `,"ts_ms":`...)
	dst = strconv.AppendInt(dst, ms, 10)
	dst = append(dst, `,"snapshot":"`...)
	dst = strconv.AppendBool(dst, c.Op == Read)
	dst = append(dst, '"')
	dst = appendField(dst, "db", e.Cluster)
	dst = appendField(dst, "schema", c.Namespace)
	dst = append(dst, c.Stream.fields...)
	dst = appendField(dst, "uid", c.UID)
	dst = appendField(dst, "resourceVersion", string(c.ResourceVersion))
	dst = appendField(dst, "stream", string(c.Stream.ID()))
	return append(appendOptional(dst, c, dead), "}}"...)
}

func appendOptional(dst []byte, c *Change, dead *DeadLetter) []byte {
	if c.Inferred {
		dst = append(dst, `,"inferred":true`...)
	}
	if c.Gap != "" {
		dst = appendField(dst, "gap", c.Gap)
	}
	if dead != nil {
		dst = appendField(dst, "dead_letter", dead.ID)
		dst = appendField(dst, "error", dead.Error)
	}
	return dst
}

// appendResource appends what source says of a stream's resource.
func appendResource(dst []byte, r *Resource) []byte {
	dst = appendField(dst, "table", r.Plural)
	dst = appendField(dst, "group", r.Group)
	dst = appendField(dst, "apiVersion", r.APIVersion())
	return appendField(dst, "kind", r.Kind)
}

// appendField appends ,"name":"value"; the name is plain.
func appendField(dst []byte, name, value string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return appendString(dst, value)
}

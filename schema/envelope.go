package schema

// key has the members of a record's key. They are the primary key of every table.
var key = []string{"cluster", "namespace", "name"}

// envelope returns the type of a record's value (change/envelope.go).
func envelope(object *Type) *Type {
	return record(field("before", object), field("after", object), fieldOf("op", String), fieldOf("ts_ms", Integer),
		field("source", source))
}

// envelopeFields are the members of a record's value except the images, for SQL. It reads source as a map, because all of its
// members are scalars.
var envelopeFields = []Field{fieldOf("op", String), fieldOf("ts_ms", Integer), field("source", mapOf(scalar(String)))}

// envelopeFields returns the members of the table's records except the images, for SQL.
func (t *Table) envelopeFields() []Field {
	if t.Encoding == avroEncoding {
		return []Field{fieldOf("op", String), fieldOf("ts_ms", Integer), field("source", avroSource)}
	}
	return envelopeFields
}

var source = &Type{Kind: Record, Open: true, Fields: []Field{
	fieldOf("version", String), fieldOf("connector", String), fieldOf("name", String), fieldOf("ts_ms", Integer),
	fieldOf("snapshot", String), fieldOf("db", String), fieldOf("schema", String), fieldOf("table", String),
	fieldOf("group", String), fieldOf("apiVersion", String), fieldOf("kind", String), fieldOf("uid", String),
	fieldOf("resourceVersion", String), fieldOf("stream", String), fieldOf("inferred", Boolean), fieldOf("gap", String),
	fieldOf("dead_letter", String), fieldOf("error", String),
}}

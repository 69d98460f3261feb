// Package encoding has the forms of the records of a log that is records: how a change's key and value look on the wire, and how they
// are read back. A record says by its header "encoding" which one it has, so a topic may hold several. Control records and dead
// letters are always JSON, and are none of its business. It knows nothing of Kafka, nor of what else carries records.
package encoding

import (
	"context"
	"fmt"

	"kubecdc/change"
)

// Debezium is the name of the default encoding: change.Envelope's JSON. Its records have no header "encoding".
const Debezium = "debezium"

// Encoding is one form of records. It is safe for concurrent use.
type Encoding interface {
	// Name is the value of KUBECDC_ENCODING and of the header "encoding".
	Name() string
	// Keys names the form of the keys. A cluster's log has keys of one form only, since compaction compares their bytes.
	Keys() string
	// NewEncoder returns what makes the records of one slot.
	NewEncoder(e change.Envelope) Encoder
	// DecodeKey parses the key of a record, or of a tombstone.
	DecodeKey(key []byte) (Key, error)
	// Decode parses the value of a record that is not null. The result may refer to the value.
	Decode(ctx context.Context, value []byte, headers map[string]string) (Decoded, error)
}

// Encoder makes records of changes. It is used by one goroutine.
type Encoder interface {
	// Overhead is about how many bytes a record takes besides those of Debezium's JSON.
	Overhead() int
	// Encode sets the record's value, or that it is a tombstone. The record has the plain key already: Encode may replace it, and append
	// headers to those that all encodings have. What it sets is valid until the next call. Of dead see change.Envelope.Value.
	Encode(r *Record, c *change.Change, dead *change.DeadLetter)
}

// Preparer is an Encoder that needs to know a batch before its records are encoded.
type Preparer interface {
	// Prepare waits for what the records need. It returns the control records that belong to the batch.
	Prepare(ctx context.Context, changes []change.Change) ([]change.Control, error)
	// Done forgets the batch.
	Done()
}

// Checker is an Encoding that needs more than Kafka.
type Checker interface {
	// Check tries what records of the resources need. It writes nothing.
	Check(ctx context.Context, prefix string, resources []change.Resource) error
}

// PlainKeys are keys as change.Envelope writes them. They decide in every encoding on which partition an object is.
const PlainKeys = "json"

// Key says which object a record is about.
type Key struct{ Cluster, Namespace, Name string }

// Decoded is what the log is read back for. Key and headers have the rest.
type Decoded struct {
	Before, After []byte // JSON; nil: null, or the encoding has none
	Provenance    change.Provenance
	JSON          []byte // the whole value as JSON; nil: the value is JSON itself
}

// Set has the encodings that can be written and read, by name.
type Set map[string]Encoding

// NewSet returns all encodings.
func NewSet(o AvroOptions) Set {
	s := Set{}
	for _, e := range []Encoding{debezium{}, debeziumSchema{}, cloudEvents{}, object{}, newAvro(o)} {
		s[e.Name()] = e
	}
	return s
}

// Of returns the encoding of a record with these headers.
func (s Set) Of(headers map[string]string) (Encoding, error) {
	name, ok := headers[change.HeaderEncoding]
	if !ok {
		name = Debezium
	}
	if e := s[name]; e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("the record has the encoding %q, which this version of kubecdc does not know", name)
}

// Package encoding has the forms of records: how a change's key and value are written, and how they are read back. A record's
// header "encoding" names its form, so a topic may have several. Control records and dead letters are always JSON, and not part
// of this package. It knows nothing of Kafka, nor of other carriers of records.
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
	// Keys names the form of the keys. A cluster's log has keys of only one form, since compaction compares their bytes.
	Keys() string
	// NewEncoder returns an encoder for the records of one slot.
	NewEncoder(e change.Envelope) Encoder
	// DecodeKey parses the key of a record, or of a tombstone.
	DecodeKey(key []byte) (Key, error)
	// Decode parses the value of a record that is not null. The result may refer to the value's memory.
	Decode(ctx context.Context, value []byte, headers map[string]string) (Decoded, error)
}

// Encoder makes records of changes. One goroutine uses it.
type Encoder interface {
	// Overhead returns about how many bytes a record takes in addition to Debezium's JSON.
	Overhead() int
	// Encode sets the record's value, or makes the record a tombstone. The record already has the plain key and the common
	// headers. Encode may replace the key, and append headers. The values that it sets are valid until the next call. dead is
	// explained at change.Envelope.Value.
	Encode(r *Record, c *change.Change, dead *change.DeadLetter)
}

// Preparer is an Encoder that must see a batch before its records are encoded.
type Preparer interface {
	// Prepare waits for what the records need. It returns the control records that belong to the batch.
	Prepare(ctx context.Context, changes []change.Change) ([]change.Control, error)
	// Done forgets the batch.
	Done()
}

// Checker is an Encoding that needs more than Kafka.
type Checker interface {
	// Check tries what the resources' records need. It writes nothing.
	Check(ctx context.Context, prefix string, resources []change.Resource) error
}

// PlainKeys are keys as change.Envelope writes them. In every encoding they decide on an object's partition.
const PlainKeys = "json"

// Key identifies the object of a record.
type Key struct{ Cluster, Namespace, Name string }

// Decoded is what is read from a record's value. Key and headers have the rest.
type Decoded struct {
	Before, After []byte // JSON, or nil for null or if the encoding has none
	Provenance    change.Provenance
	JSON          []byte // the complete value as JSON, or nil if the value itself is JSON
}

// Set has the available encodings by name.
type Set map[string]Encoding

// NewSet returns all encodings.
func NewSet(o AvroOptions) Set {
	s := Set{}
	for _, e := range []Encoding{debezium{}, debeziumSchema{}, cloudEvents{}, object{}, newAvro(o)} {
		s[e.Name()] = e
	}
	return s
}

// ByHeaders returns the encoding of a record with these headers.
func (s Set) ByHeaders(headers map[string]string) (Encoding, error) {
	name, ok := headers[change.HeaderEncoding]
	if !ok {
		name = Debezium
	}
	if e := s[name]; e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("the record has the encoding %q, which this version of kubecdc does not know", name)
}

// Package change has the types that all other packages share, and the format of the records that consumers read.
//
// A Change belongs to a Stream (stream.go). Changes are committed in a Batch, with the positions that the streams then have
// (batch.go), and with control records (control.go). An Envelope turns a change into the key and value of a record
// (envelope.go), with headers (headers.go), in a topic of its resource (topic.go). An object that is too large is replaced by a
// stub (stub.go).
//
// The package does not know where changes come from (source), where they go (sinks), or how positions are stored (checkpoint).
package change

import (
	"strings"
	"time"

	"kubecdc/internal/slab"
)

// Op is the operation on an object, as Debezium encodes it.
type Op byte

const (
	Create Op = 'c'
	Update Op = 'u'
	Delete Op = 'd'
	Read   Op = 'r' // read by a snapshot: the object existed before
)

// String does not allocate: Go has the string of each single byte.
func (o Op) String() string { return string([]byte{byte(o)}) }

// Change is one transition of one object.
//
// Before and After are the API server's own JSON bytes, with kind and apiVersion. They are shared and must not be modified.
// After is nil for Delete. Before is nil for Create and Read, and if before-images are off. Both are valid until the batch is
// durable.
type Change struct {
	Stream          *Stream
	Op              Op
	Namespace       string // empty for a cluster-scoped object
	Name            string
	UID             string
	ResourceVersion ResourceVersion // the last known version for an inferred Delete
	Before          []byte
	After           []byte
	Time            time.Time // when the exporter saw it
	Inferred        bool      // found by comparing two states, not by an event
	Gap             string    // id of the gap in which it was found, or empty for a live change
	Lost            bool      // a repair: the log may lack the known state of the object, so the change is always written
	Logged          bool      // the log already has the change, so only the object's body is stored
	Provenance      Provenance

	Slab *slab.Slab // holds After until the batch is durable. nil: After has memory of its own

	key string // set by SetKey; else empty
}

// Key identifies the object within its collection: "namespace/name", or "name". Lists are in the bytewise order of keys.
func (c *Change) Key() string {
	if c.key != "" {
		return c.key
	}
	return ObjectKey(c.Namespace, c.Name)
}

// SetKey caches the key of Namespace and Name.
func (c *Change) SetKey(key string) { c.key = key }

// ObjectKey returns the key of an object. namespace is empty for a cluster-scoped object.
func ObjectKey(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// SplitKey is the inverse of ObjectKey.
func SplitKey(key string) (namespace, name string) {
	if i := strings.IndexByte(key, '/'); i >= 0 {
		return key[:i], key[i+1:]
	}
	return "", key
}

// ID identifies the change among all of the cluster. It is the same when the change is written again.
func (c *Change) ID() string { return c.UID + "/" + string(c.ResourceVersion) + "/" + c.Op.String() }

// Size is the approximate size of the change in memory, in bytes.
func (c *Change) Size() int {
	return len(c.Before) + len(c.After) + len(c.Namespace) + len(c.Name) + len(c.UID) + 200
}

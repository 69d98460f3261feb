// Package change holds the words that every other package speaks: Change, Stream, Position, Batch, the control records,
// what identifies a cluster, and the encoders that turn changes into the bytes that consumers read. It knows nothing of how a
// change was seen (source), where it goes (sinks) or how progress is kept (checkpoint).
package change

import (
	"strings"
	"time"
)

// Op says what happened to an object, with Debezium's letters.
type Op byte

const (
	Create Op = 'c'
	Update Op = 'u'
	Delete Op = 'd'
	Read   Op = 'r' // seen by the first snapshot of a stream, not as a live change
)

func (o Op) String() string { return string(rune(o)) }

// Change is one transition of one object.
//
// Before and After are the API server's own JSON bytes (kind and apiVersion included). They are shared, never
// modified in place. After is nil for Delete. Before is nil for Create and Read, and when before-images are off.
type Change struct {
	Stream          *Stream
	Op              Op
	Namespace       string // empty for a cluster-scoped object
	Name            string
	UID             string
	ResourceVersion ResourceVersion // of a Delete seen live: the deletion's own; of an inferred Delete: the last one known
	Before          []byte
	After           []byte
	Time            time.Time // when the exporter saw it
	Inferred        bool      // found by comparing a list with the inventory, not seen as an event
	Gap             string    // id of the gap that it was found in; empty when seen live

	key string // of SetKey
}

// Key is the object's place in its collection, "namespace/name" or "name": the order of lists is the bytewise
// order of this text.
func (c *Change) Key() string {
	if c.key != "" {
		return c.key
	}
	return ObjectKey(c.Namespace, c.Name)
}

// SetKey spares Key the joining; key is that of Namespace and Name.
func (c *Change) SetKey(key string) { c.key = key }

// ObjectKey joins a namespace (may be empty) and a name as Key does.
func ObjectKey(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// SplitKey takes a key apart that ObjectKey joined.
func SplitKey(key string) (namespace, name string) {
	if i := strings.IndexByte(key, '/'); i >= 0 {
		return key[:i], key[i+1:]
	}
	return "", key
}

// Size is about how many bytes the change holds in memory.
func (c *Change) Size() int {
	return len(c.Before) + len(c.After) + len(c.Namespace) + len(c.Name) + len(c.UID) + 200
}

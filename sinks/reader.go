package sinks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kubecdc/audit"
	"kubecdc/change"
)

// ErrNotRetained says that the log does not go back as far as was asked.
var ErrNotRetained = errors.New("the log does not go back that far")

// ErrNoCluster says that the log has nothing of the cluster that was asked about.
var ErrNoCluster = errors.New("has nothing of cluster")

// Reader reads a log back, whoever wrote it: for questions about the past, for replays and for verification. It writes nothing,
// fences nobody and needs no checkpoint. It is safe for concurrent use.
type Reader interface {
	// Resources returns the ids of the resources that the log has, or may have, changes of.
	Resources(ctx context.Context) ([]string, error)
	// CutAt returns the last cut whose batches were all logged at or before a time; zero: the end of the log now. ErrNotRetained if the control records
	// do not go back that far.
	CutAt(ctx context.Context, logged time.Time) (Cut, error)
	// Retained returns what the log still has of some of its resources; empty: of all.
	Retained(ctx context.Context, resources []string) (map[string]Retained, error)
	// Changes visits the changes that a query selects. Changes of one object come in the order of the log; others in any order.
	// Wanted, visit and Progress are called by one goroutine at a time. With Follow it ends with the error of the context.
	Changes(ctx context.Context, q Query, visit func(*Logged) error) error
	// Controls visits the cluster's control records that were logged at or after a time, in the order of the log: that of a slot is (epoch,
	// batch), and between slots it is one that the log records, whatever the clocks did. A log may have spans that stand for several batches.
	// It visits those of which inFull is false; nil: none.
	Controls(ctx context.Context, since time.Time, inFull func(*Span) bool, visit func(*change.Control) error) error
	// Audits visits the audit records that a query selects, in any order, each once, and returns of which time the log has some. A record
	// is valid until visit returns.
	Audits(ctx context.Context, q audit.Query, visit func(*audit.Record) error) (audit.Coverage, error)
}

// ReadCloser is a Reader that its user closes.
type ReadCloser interface {
	Reader
	Close() error
}

// Retained is what a log still has of a resource.
type Retained struct {
	// Since is since when the log has every change that was logged. Of older changes it has the last one of each object that was not
	// deleted.
	Since time.Time
	// Lost says what the log lacks although no gap record says so, such as records that somebody has removed (Unrecorded); empty: nothing
	// that is known of.
	Lost string
}

// Unrecorded is what Lost says of a loss.
func Unrecorded(format string, args ...any) string {
	return fmt.Sprintf(format, args...) + ", and no gap record says so: a running exporter finds that out at its start or with the next " +
		"proof, writes the gap record, and writes again what lives"
}

// Cut is a point of the log between two batches of each slot.
type Cut struct {
	Batches map[int]uint64 // the last batch of each slot; one that is left out is cut by the offsets, and without them has none
	// Offsets are empty for a sink without offsets. Every later record of a partition is at its offset or behind it; earlier
	// ones of other slots may be there too. A partition that is left out has no earlier record of a slot that Batches leaves out.
	Offsets change.Offsets
}

// Has reports whether a change is before the cut.
func (c *Cut) Has(l *Logged) bool {
	if last, known := c.Batches[l.Slot]; known || l.Batch == 0 {
		return l.Batch <= last
	}
	return l.Offset < c.Offsets[l.Topic][l.Partition]
}

// Query selects changes of a log. All its conditions must hold.
type Query struct {
	Resources []string // ids; empty: all
	Namespace string   // empty: all
	Name      string   // empty: all. With Namespace it is one object: a sink then reads only where that object's changes are
	// Keys selects objects of one resource, which come one after the other, in the order of their keys; nil: all, in any order. A log that would
	// have to sort them returns errors.ErrUnsupported at once.
	Keys *Keys
	// Changes after one cut, up to another; nil: from the start of the log, to its end at the time of the call. ErrNotRetained if
	// retention has removed changes after the first one, or removes some before they are read.
	After, To *Cut
	Each      Each
	Follow    bool // go on with what is written later, until the context ends; To is nil
	// Wanted decides by all but Before, After, Key and Value, which are not read yet; nil: all.
	Wanted   func(*Logged) bool
	NoBodies bool // Before, After and Value are not needed
	// Progress is called now and then with the number of records read, selected or not, of how many; nil: nobody asks.
	Progress func(read, of int64)
}

// Each says which of its changes are needed of each object. A log that would have to read all of them returns errors.ErrUnsupported at
// once for the others.
type Each int

const (
	All Each = iota
	// Last is the last change up to Query.To, with After alone, or more. Of deletions it is only those that no event told: inferred ones,
	// and those of a gap.
	Last
	// Rest is the changes of each name after Query.After, in their order, up to the first one that is not wanted. Wanted is called right
	// before visit, or several times before it.
	Rest
	// Table is what the log stores of each object as it is now, with After alone.
	Table
)

// Keys is a span of the keys of objects (change.ObjectKey), in etcd's order: bytewise.
type Keys struct {
	After string // empty: from the first one
	UpTo  string // empty: to the last one
}

// Selects reports whether a change is of the namespace and the name, and wanted.
func (q *Query) Selects(l *Logged) bool {
	return (q.Namespace == "" || q.Namespace == l.Namespace) && (q.Name == "" || q.Name == l.Name) && (q.Wanted == nil || q.Wanted(l))
}

// Logged is a change as the log has it. It is valid until visit returns.
type Logged struct {
	change.Change           // the stream has only what its id says
	Logged        time.Time // when its batch was written, or a moment before that
	Slot          int
	Epoch         int64
	Batch         uint64 // 0: one that is not kept any more, of which the log has the last state of an object that was not changed since
	DeadLetter    string // not empty: After is a stub, perhaps Before too, and the dead letter of this id has the whole record

	// Of a sink whose log is records (Kafka):
	Topic      string
	Partition  int
	Offset     int64
	Key, Value []byte // of the record as it is; Value is nil in a tombstone, which is visited only if compaction has removed its delete
	Headers    []Header
	// Key and value as JSON, if the record has them in another form (Avro); else nil.
	JSONKey, JSONValue []byte
}

// Clone returns a copy that stays valid. Its bytes are one allocation.
func (l *Logged) Clone() Logged {
	c := *l
	all := [...]*[]byte{&c.Before, &c.After, &c.Provenance.Managers, &c.Provenance.Fields, &c.Key, &c.Value, &c.JSONKey, &c.JSONValue}
	size := 0
	for _, b := range all {
		size += len(*b)
	}
	memory := make([]byte, 0, size)
	for _, b := range all {
		if *b != nil {
			start := len(memory)
			memory = append(memory, *b...)
			*b = memory[start:len(memory):len(memory)]
		}
	}
	c.Headers, c.Slab = slices.Clone(l.Headers), nil // After has memory of its own now
	return c
}

// Header is a header of a record.
type Header struct{ Key, Value string }

// Span is a batch record that stands for several, which have no control record besides, or only one that the same streams are current. It has
// the last position of each stream.
type Span struct {
	*change.Control
	First    uint64    // batch
	Earliest time.Time // of all positions, also those that Control lacks
}

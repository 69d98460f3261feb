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

// ErrNotRetained says that the log does not go back as far as was requested.
var ErrNotRetained = errors.New("the log does not go back that far")

// ErrEnough ends a read early. It is for functions that a Reader calls.
var ErrEnough = errors.New("enough was read")

// ErrNoCluster says that the log has nothing of the requested cluster.
var ErrNoCluster = errors.New("has nothing of cluster")

// Reader reads a log back, for questions about the past, replays and verification. It reads batches of all owners, writes
// nothing, fences nobody and needs no checkpoint. It is safe for concurrent use.
type Reader interface {
	// Resources returns the ids of the resources whose changes the log has, or may have.
	Resources(ctx context.Context) ([]string, error)
	// CutAt returns the last cut whose batches were all logged at or before a time. A zero time means the present end of the log.
	// It returns ErrNotRetained if the control records do not go back that far.
	CutAt(ctx context.Context, logged time.Time) (Cut, error)
	// Retained returns what the log still has of some of its resources, or of all if resources is empty.
	Retained(ctx context.Context, resources []string) (map[string]Retained, error)
	// FindsObjects reports whether a query may have Keys, and each Each. If not, Changes returns errors.ErrUnsupported at once
	// for these.
	FindsObjects() bool
	// Changes visits the changes that a query selects. Changes of one object come in the order of the log, others in any order.
	// Wanted, visit and Progress are called by one goroutine at a time. With Follow it ends with the error of the context.
	Changes(ctx context.Context, q Query, visit func(*Logged) error) error
	// Controls visits the cluster's control records that were logged at or after a time, in the order of the log. Within a slot
	// that is (epoch, batch). Between slots it is an order that the log records, whatever the clocks did. A log may have spans
	// that stand for several batches. It visits a span if inFull returns false for it, or is nil.
	Controls(ctx context.Context, since time.Time, inFull func(*Span) bool, visit func(*change.Control) error) error
	// Audits visits each selected audit record once, in any order, and returns the time that the log's audit records cover. A
	// record is valid until visit returns.
	Audits(ctx context.Context, q audit.Query, visit func(*audit.Record) error) (audit.Coverage, error)
}

// ReadCloser is a Reader of an open log, which its user closes.
type ReadCloser interface {
	Reader
	// LogSize returns how much the log takes, with all clusters in it. It does not set Limit and Full.
	LogSize(ctx context.Context, now time.Time) (*change.LogSize, error)
	Close() error
}

// Retained is what a log still has of a resource.
type Retained struct {
	// Since is the time since which the log has every change that was logged. It also has the last older change of each object
	// that was not deleted.
	Since time.Time
	// Lost is what the log lacks without a gap record, such as records that somebody has removed (Unrecorded). It is empty if no
	// loss is known.
	Lost string
}

// Unrecorded returns the text of Lost for a loss.
func Unrecorded(format string, args ...any) string {
	return fmt.Sprintf(format, args...) + ", and no gap record says so: a running exporter finds that out at its start or with " +
		"the next " +
		"proof, writes the gap record, and writes again what lives"
}

// Cut is a point of the log between two batches of each slot.
type Cut struct {
	Batches Place // Offsets decide for the slots that it leaves out
	// Offsets are empty for a sink without offsets. Each later record of a partition is at its offset or after it. Earlier
	// records of other slots may be there, too. A partition that is left out has no earlier record of a slot that Batches leaves
	// out.
	Offsets change.Offsets
}

// Has reports whether a change is before the cut. A pruned batch is before each cut, so a cut before Retained.Since has later
// states.
func (c *Cut) Has(l *Logged) bool {
	if l.Batch == 0 {
		return true
	}
	if has, known := c.Batches.Has(l.Slot, l.Batch); known {
		return has
	}
	return l.Offset < c.Offsets[l.Topic][l.Partition]
}

// Query selects changes of a log. All its conditions must hold.
type Query struct {
	Resources []string // ids; empty: all
	Namespace string   // empty: all
	Name      string   // empty: all. With Namespace it selects one object, and a sink reads only where that object's changes are
	// Keys selects objects of one resource by their keys. They are visited one after the other, in the order of their keys. nil
	// selects all, in any order.
	Keys *Keys
	// After and To are the cuts between which changes are selected. A nil After is the start of the log. A nil To is its end at
	// the time of the call. Changes returns ErrNotRetained if retention has removed changes after After, or removes some during
	// the call.
	After, To *Cut
	Each      Each
	Follow    bool // go on with later changes until the context ends, if To is nil
	// Wanted selects by all except Before, After, Key and Value, which are not read yet. nil selects all.
	Wanted   func(*Logged) bool
	NoBodies bool // Before, After and Value are not needed
	// Progress, if not nil, is called from time to time with the number of records read, selected or not, and the total.
	Progress func(read, total int64)
}

// Each says which changes of each object are needed.
type Each int

const (
	All Each = iota
	// Last is the last change up to Query.To, or more, with After as the only image. Deletions are included only if no event has
	// reported them: inferred ones, and deletions of a gap. If retention has removed an object's last change, it is the first
	// change after Query.To, with Before.
	Last
	// Rest has the changes of each name after Query.After, in their order, up to the first change that is not wanted. Wanted is
	// called right before visit, or several times before it.
	Rest
	// Table is the present state of each object in the log, with After as the only image.
	Table
)

// Keys is a span of the keys of objects (change.ObjectKey). Their order is bytewise, as in etcd.
type Keys struct {
	After string // empty: from the first key
	UpTo  string // empty: to the last key
}

// Selects reports whether a change has the namespace and the name, and is wanted.
func (q *Query) Selects(l *Logged) bool {
	return (q.Namespace == "" || q.Namespace == l.Namespace) && (q.Name == "" || q.Name == l.Name) &&
		(q.Wanted == nil || q.Wanted(l))
}

// Spans reports whether a change is between After and To.
func (q *Query) Spans(l *Logged) bool {
	return (q.To == nil || q.To.Has(l)) && (q.After == nil || !q.After.Has(l))
}

// Logged is a change as the log has it. It is valid until visit returns.
type Logged struct {
	change.Change           // the stream has only what its id contains
	Logged        time.Time // when its batch was written, or a moment earlier
	Cluster       string    // set by Kafka
	Slot          int
	Epoch         int64
	Batch         uint64 // 0: a pruned batch. The log still has the last states of its objects
	DeadLetter    string // if not empty, After and perhaps Before are stubs, and the dead letter with this id has the record

	// These are set by a sink whose log is records (Kafka).
	Topic      string
	Partition  int
	Offset     int64
	Key, Value []byte // original bytes. Only a tombstone without its delete has no Value
	Headers    []Header
	// JSONKey and JSONValue are the JSON of a record in another form (Avro), else nil.
	JSONKey, JSONValue []byte
}

// Clone returns a copy that remains valid. Its bytes are one allocation.
func (l *Logged) Clone() Logged {
	c := *l
	all := [...]*[]byte{&c.Before, &c.After, &c.Provenance.Managers, &c.Provenance.Fields, &c.Key, &c.Value, &c.JSONKey,
		&c.JSONValue}
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
	c.Headers, c.Slab = slices.Clone(l.Headers), nil // After is not in the slab any more
	return c
}

// Header is a header of a record.
type Header struct{ Key, Value string }

// Span is a batch record that stands for several batches. They have no other control record, except that the same streams are
// current. It has the last position of each stream.
type Span struct {
	*change.Control
	First    uint64    // batch
	Earliest time.Time // earliest of all positions, also of those that Control lacks
}

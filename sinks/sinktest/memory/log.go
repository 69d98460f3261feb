// Package memory is the reference sink: a log in memory that passes the whole contract (sinktest) with as little code as
// possible. It is an example for authors of sinks (docs/adding-a-sink.md) and useful in tests; no setting selects it.
//
// The log is a list to which records are appended one at a time, as to a file. A batch is all or nothing by its commit mark,
// which follows its records: the mark is appended only while its writer is the newest owner of the slot, and readers skip
// records that no mark follows.
package memory

import (
	"crypto/rand"
	"sync"

	"kubecdc/change"
)

// Log is what sinks write to. Sinks that share one are like processes that share a server.
type Log struct {
	id string

	mu      sync.Mutex
	records []record
	uids    map[string]string // of the clusters in the log, by name
	epochs  map[place]int64   // of each slot's newest owner
}

// place is a slot of a cluster.
type place struct {
	cluster string
	slot    int
}

// record is part of a batch: a change, a malformed event, or the commit mark that ends it.
type record struct {
	place
	epoch     int64
	seq       uint64
	change    *change.Change
	malformed *change.Malformed
	mark      *mark
}

type mark struct {
	positions []change.Position
	controls  []change.Control
}

// NewLog makes an empty log.
func NewLog() *Log {
	return &Log{id: "memory:" + rand.Text(), uids: map[string]string{}, epochs: map[place]int64{}}
}

// append adds the record if its writer is still the slot's newest owner, and reports whether it is.
func (l *Log) append(r record) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.epochs[r.place] != r.epoch {
		return false
	}
	l.records = append(l.records, r)
	return true
}

// snapshot is what the log has now. Records are never changed, so it may be read while more are appended.
func (l *Log) snapshot() []record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records[:len(l.records):len(l.records)]
}

// batch is a batch that has its commit mark.
type batch struct {
	place
	epoch     int64
	seq       uint64
	changes   []*change.Change
	malformed []*change.Malformed
	mark
}

// batches calls visit with every committed batch, in the order of their marks.
func batches(records []record, visit func(*batch) error) error {
	type attempt struct {
		place
		epoch int64
		seq   uint64
	}
	begun := map[attempt]*batch{}
	for _, r := range records {
		key := attempt{r.place, r.epoch, r.seq}
		b := begun[key]
		if b == nil {
			b = &batch{place: r.place, epoch: r.epoch, seq: r.seq}
			begun[key] = b
		}
		switch {
		case r.change != nil:
			b.changes = append(b.changes, r.change)
		case r.malformed != nil:
			b.malformed = append(b.malformed, r.malformed)
		default:
			b.mark = *r.mark
			delete(begun, key)
			if err := visit(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// DeadLetters returns the malformed events, as any other reader of the log finds them.
func (l *Log) DeadLetters() (all []change.Malformed) {
	_ = batches(l.snapshot(), func(b *batch) error {
		for _, m := range b.malformed {
			all = append(all, *m)
		}
		return nil
	})
	return all
}

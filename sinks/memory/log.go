// Package memory is the reference sink: a log in memory that passes the whole contract (sinktest) with as little as that
// takes. It is read by whoever writes a sink, with docs/adding-a-sink.md, and of use to tests; no setting chooses it.
//
// The log is a list that records are appended to, one at a time, as to a file. What makes a batch all or nothing is a mark
// after its records, which is appended only while its writer is the newest owner of the slot, and readers that leave
// out what no mark follows.
package memory

import (
	"crypto/rand"
	"sync"

	"kubecdc/change"
)

// Log is what sinks write to. Those that share one are processes that share a server.
type Log struct {
	id string

	mu      sync.Mutex
	records []record
	uids    map[string]string // of each cluster that the log has, by name
	epochs  map[place]int64   // of each slot's newest owner
}

// place is a slot of a cluster.
type place struct {
	cluster string
	slot    int
}

// record is part of a batch: a change, or what could not be read, or the mark that ends it.
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

// append adds the record if its writer is still the slot's newest owner, and says whether it is.
func (l *Log) append(r record) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.epochs[r.place] != r.epoch {
		return false
	}
	l.records = append(l.records, r)
	return true
}

// until gives what the log has now. Records are never changed, so it may be read while more are appended.
func (l *Log) until() []record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records[:len(l.records):len(l.records)]
}

// batch is one that was ended by a mark.
type batch struct {
	place
	epoch     int64
	seq       uint64
	changes   []*change.Change
	malformed []*change.Malformed
	mark
}

// batches hands on every batch that was ended, in the order of their marks. What was begun and never ended is left out.
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

// DeadLetters gives what could not be read, as any other program finds it.
func (l *Log) DeadLetters() (all []change.Malformed) {
	_ = batches(l.until(), func(b *batch) error {
		for _, m := range b.malformed {
			all = append(all, *m)
		}
		return nil
	})
	return all
}

package memory

import (
	"bytes"
	"context"
	"slices"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Kind describes the sink.
var Kind = sinks.Kind{Name: "memory"}

// Sink is one process's access to a Log, on behalf of a cluster.
type Sink struct {
	sinks.NoServer

	log          *Log
	cluster, uid string
}

var _ sinks.Sink = (*Sink)(nil)

// New makes a sink that writes to the log. The uid distinguishes the cluster from others of that name.
func New(log *Log, cluster, uid string) *Sink {
	return &Sink{log: log, cluster: cluster, uid: uid}
}

// Open makes the caller the slot's newest owner: the log accepts no more marks of earlier ones.
func (s *Sink) Open(_ context.Context, slot int, epoch int64, from sinks.Durable) (*sinks.Opened, error) {
	at := place{s.cluster, slot}
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if err := s.verify(); err != nil {
		return nil, err
	}
	before := s.log.epochs[at]
	if before >= epoch {
		return nil, &sinks.NewerEpochError{Slot: slot, Epoch: before}
	}
	s.log.uids[s.cluster], s.log.epochs[at] = s.uid, epoch
	l := &slotLog{sink: s, place: at, epoch: epoch, before: before, read: slices.Clip(s.log.records)}
	if from.New {
		return &sinks.Opened{Log: l, Tail: sinks.NoTail}, nil
	}
	return &sinks.Opened{Log: l, Tail: func(ctx context.Context, visit func(*sinks.Recovered) error) error {
		return l.tail(ctx, from.Seq, visit)
	}}, nil
}

// VerifyCluster compares the uid of the cluster in the log.
func (s *Sink) VerifyCluster(context.Context, int, sinks.Durable) error {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.verify()
}

func (s *Sink) verify() error {
	if stored, known := s.log.uids[s.cluster]; known && stored != s.uid {
		return &sinks.OtherClusterError{Log: "the log in memory", Cluster: s.cluster, Stored: stored, Found: s.uid, Setting: "the log"}
	}
	return nil
}

// Identity is the log's.
func (s *Sink) Identity(context.Context) (string, error) { return s.log.id, nil }

// Close does nothing.
func (s *Sink) Close() error { return nil }

// slotLog is the log of a slot, for one owner.
type slotLog struct {
	sink *Sink
	place
	epoch  int64
	before int64    // the epoch of the owner before
	read   []record // of the log when it was opened
}

// Write appends the batch's records one by one, and the mark last. If it ends before the mark, the batch was never written.
func (l *slotLog) Write(ctx context.Context, b *change.Batch) (change.Offsets, error) {
	for _, r := range l.recordsOf(b) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !l.sink.log.append(r) {
			return nil, sinks.ErrInvalidWriter
		}
	}
	return nil, nil
}

// recordsOf copies the batch, since its bytes belong to the caller again when Write returns.
func (l *slotLog) recordsOf(b *change.Batch) (records []record) {
	part := record{place: l.place, epoch: l.epoch, seq: b.Seq}
	for _, m := range b.Malformed {
		m.Bytes = bytes.Clone(m.Bytes)
		r := part
		r.malformed = &m
		records = append(records, r)
	}
	for _, c := range b.Changes {
		c.Before, c.After = nil, bytes.Clone(c.After)
		r := part
		r.change = &c
		records = append(records, r)
	}
	part.mark = &mark{slices.Clone(b.Positions), slices.Clone(b.Controls)}
	return append(records, part)
}

// tail visits the slot's batches after seq, up to the end that the log had when it was opened.
func (l *slotLog) tail(ctx context.Context, seq uint64, visit func(*sinks.Recovered) error) error {
	return batches(l.read, func(b *batch) error {
		if b.place != l.place || b.seq <= seq {
			return ctx.Err()
		}
		r := sinks.Recovered{Batch: change.Batch{Slot: b.slot, Epoch: b.epoch, Seq: b.seq, Positions: b.positions}}
		for _, c := range b.changes {
			r.Batch.Changes = append(r.Batch.Changes, *c)
		}
		return visit(&r)
	})
}

// Close does nothing: a batch without its mark does not count.
func (l *slotLog) Close() error { return nil }

package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/sinks"
	"kubecdc/sinks/encoding"
	"kubecdc/sinks/kafka/internal/producer"
	"kubecdc/sinks/kafka/internal/reader"
	"kubecdc/sinks/kafka/internal/recordbatch"
	"kubecdc/sinks/kafka/internal/takeover"
)

// slotLog writes one slot's batches.
//
// A batch is prepared (each change gets its partition), applied (its records and its control records are written) and published
// (the transaction is committed). Invariants:
//  1. Records of one partition are written in the order of the batch's changes, one record batch in flight.
//  2. The transaction is committed only if the batch's records have the offsets in its control record. Without transactions,
//     the control record is written after everything else was acknowledged.
//  3. After any error the outcome is unknown and the log writes no more: the slot must be opened again.
type slotLog struct {
	sink     *Sink
	slot     int
	epoch    int64
	producer *producer.Producer
	envelope change.Envelope
	encoder  encoding.Encoder

	topics  map[string]*producer.Topic
	streams map[*change.Stream]*producer.Topic
	spread  map[string]int // by topic without a batch record of this owner: over how many partitions keys are spread
	control *producer.Partition
	dead    *producer.Topic // nil until it is needed

	batch   *change.Batch
	schemas []change.Control // schemas that the batch begins to use
	keys    []byte           // plain keys of all changes of the batch, one after another
	keyEnd  []int
	active  []*producer.Partition
	stubs   map[int32]*stub // for refused records, by index of the change

	// These are the headers that all records of the batch share, and buffers for one record.
	shared  recordbatch.Headers
	headers []byte
	record  recordbatch.Record
	encoded encoding.Record // source of the record

	refused *sinks.RefusedError // topics that have refused the batch, or nil

	past   *takeover.Slot // the log when it was opened
	broken error
}

var errClosed = errors.New("the log is closed")

func (l *slotLog) Write(ctx context.Context, b *change.Batch) (change.Offsets, error) {
	if l.broken != nil {
		return nil, fmt.Errorf("write batch %d of slot %d: the slot must be opened again: %w", b.Seq, l.slot, l.broken)
	}
	offsets, err := l.write(ctx, b)
	if err != nil && len(l.stubs) > 0 {
		l.restore()
	}
	l.batch = nil // so that an idle log holds no batch in memory
	clear(l.stubs)
	if p, ok := l.encoder.(encoding.Preparer); ok {
		p.Done()
	}
	if err != nil {
		l.sink.takeover.Doubts.Add(l.slot, l.active)
		l.broken = err
		l.sink.abort(l.producer, l.broken)
		return nil, fmt.Errorf("write batch %d of slot %d: %w", b.Seq, l.slot, asInvalidWriter(err))
	}
	return offsets, nil
}

func (l *slotLog) write(ctx context.Context, b *change.Batch) (change.Offsets, error) {
	if err := l.past.CompareIDs(ctx); err != nil {
		return nil, err
	}
	if err := l.past.CompareStarts(ctx, b); err != nil {
		return nil, err
	}
	if sinks.Proved(b) != nil {
		hole, err := l.searchHole(ctx)
		if hole != nil {
			return nil, hole
		}
		if err != nil {
			return nil, err
		}
	}
	if err := l.prepare(ctx, b); err != nil {
		return nil, err
	}
	if err := l.past.CompareEnds(ctx, l.active); err != nil {
		return nil, err
	}
	if err := l.apply(ctx); err != nil {
		return nil, err
	}
	return l.publish(ctx)
}

// prepare queues every change for its partition.
func (l *slotLog) prepare(ctx context.Context, b *change.Batch) error {
	l.begin(b)
	for i := range b.Changes {
		c := &b.Changes[i]
		t, err := l.topicOf(ctx, c.Stream)
		if err != nil {
			return l.allRefused(ctx, b, err)
		}
		start := len(l.keys)
		l.keys = l.envelope.AppendKey(l.keys, c)
		l.keyEnd = append(l.keyEnd, len(l.keys))
		p := t.Partition(l.keys[start:])
		if p.Queued() == 0 {
			l.active = append(l.active, p)
		}
		p.Queue(int32(i))
	}
	if p, ok := l.encoder.(encoding.Preparer); ok {
		var err error
		if l.schemas, err = p.Prepare(ctx, b.Changes); err != nil {
			return l.refusedSchema(err)
		}
	}
	return nil
}

func (l *slotLog) begin(b *change.Batch) {
	for _, p := range l.active {
		p.Reset()
	}
	l.batch, l.active = b, l.active[:0]
	l.keys, l.keyEnd = l.keys[:0], l.keyEnd[:0]
	l.refused = nil
	l.shared = recordbatch.Headers{Bytes: l.shared.Bytes[:0]}
	recordbatch.AddHeader(&l.shared, change.HeaderSlot, strconv.Itoa(l.slot))
	recordbatch.AddHeader(&l.shared, change.HeaderEpoch, strconv.FormatInt(l.epoch, 10))
	recordbatch.AddHeader(&l.shared, change.HeaderBatch, strconv.FormatUint(b.Seq, 10))
}

// apply writes the changes and the malformed events, then the control records. If possible it writes all at once.
func (l *slotLog) apply(ctx context.Context) error {
	data := len(l.active)
	l.active = append(l.active, l.control)
	if err := l.producer.Add(ctx, l.active...); err != nil {
		return l.refusedToAdd(err)
	}
	failpoint.Hit(failpoint.TxnAdded)
	done, err := l.applyAtOnce(ctx, data)
	if !done && err == nil {
		err = l.applyInTurn(ctx, data)
	}
	if err != nil {
		return err
	}
	return l.past.CompareLast(ctx, l.active)
}

// applyInTurn writes the control records once the offsets of all other records are known.
func (l *slotLog) applyInTurn(ctx context.Context, data int) error {
	// A dead letter adds to l.active.
	if err := l.producer.Produce(ctx, l.active[:data:data]...); err != nil {
		return err
	}
	if err := l.writeMalformed(ctx); err != nil {
		return err
	}
	failpoint.Hit(failpoint.DataProduced)
	var written []*producer.Partition
	for _, p := range l.active {
		if p.Written {
			written = append(written, p)
		}
	}
	return l.writeControl(ctx, l.controls(written))
}

// applyAtOnce writes the control records together with the others, which saves a round. They contain the offsets that the other
// records will get if nobody else writes to their partitions. If somebody has, it aborts the transaction and begins another. It
// returns false if nothing of the batch was written to the present transaction.
func (l *slotLog) applyAtOnce(ctx context.Context, data int) (done bool, err error) {
	if l.sink.cfg.Delivery != ExactlyOnce || len(l.batch.Malformed) > 0 {
		return false, nil
	}
	ok, err := l.producer.Foresee(ctx, l.active[:data:data]...)
	if !ok || err != nil || len(l.active) > data+1 { // a dead letter was written
		return false, err
	}
	if err := l.queueControl(l.controls(l.active[:data])); err != nil {
		return false, err
	}
	if err := l.producer.Produce(ctx, l.active[:data+1:data+1]...); err != nil {
		return false, err
	}
	failpoint.Hit(failpoint.DataProduced)
	done = len(l.active) == data+1
	for _, p := range l.active[:data] {
		done = p.AsForeseen() && done
	}
	if done {
		return true, nil
	}
	return false, l.startOver(ctx, data)
}

// startOver aborts the transaction and begins another one for the same batch. If the transaction already has a dead letter, it
// returns an error, and the next owner writes the batch again.
func (l *slotLog) startOver(ctx context.Context, data int) error {
	if len(l.active) > data+1 {
		return errors.New("a record is too large, and the batch record was written before that was known")
	}
	if err := l.producer.End(ctx, false); err != nil {
		return err
	}
	for _, p := range l.active[:data] {
		p.Rewind()
	}
	l.control.Reset()
	return l.producer.Add(ctx, l.active...)
}

// publish commits the transaction and returns the offsets after the batch's records.
func (l *slotLog) publish(ctx context.Context) (change.Offsets, error) {
	failpoint.Hit(failpoint.ControlWritten)
	if err := l.producer.End(ctx, true); err != nil {
		return nil, err
	}
	for index := range l.stubs {
		l.sink.cfg.Observer.DeadLetter(l.batch.Changes[index].Stream.Resource.ID())
	}
	offsets := change.Offsets{}
	for _, p := range l.active {
		if offsets[p.Topic.Name] == nil {
			offsets[p.Topic.Name] = map[int]int64{}
		}
		offsets[p.Topic.Name][int(p.Index)] = p.Last + 1
	}
	l.past.TellIDs(offsets)
	clear(l.spread)
	return offsets, nil
}

// topicOf returns the topic of a stream's records. It creates the topic if it is missing.
func (l *slotLog) topicOf(ctx context.Context, s *change.Stream) (*producer.Topic, error) {
	if t := l.streams[s]; t != nil {
		return t, nil
	}
	name := change.Topic(l.envelope.Prefix, s.Resource)
	t, err := l.sink.topics.Topic(ctx, l.topics, name)
	if err != nil {
		return nil, cmp.Or(l.Failed(name, err), err)
	}
	if err := l.past.LearnID(ctx, name); err != nil {
		return nil, err
	}
	if err := l.past.LearnStarts(ctx, name); err != nil {
		return nil, err
	}
	for _, p := range t.Partitions {
		p.Next = max(p.Next, l.past.Expected(name, p.Index))
	}
	l.streams[s], l.spread[name] = t, len(t.Partitions)
	return t, nil
}

// State reads what the log has of some streams.
func (l *slotLog) State(ctx context.Context, wanted sinks.Selection) (*sinks.State, error) {
	return l.past.State(ctx, wanted)
}

// Has reports whether the stream's topic has any record. Only State shows whose they are.
func (l *slotLog) Has(ctx context.Context, s *change.Stream) (bool, error) {
	starts, ends, err := l.sink.client.Bounds(ctx, change.Topic(l.envelope.Prefix, s.Resource))
	for p, end := range ends {
		if end > starts[p] {
			return true, err
		}
	}
	if errors.Is(err, kafka.TopicAuthorizationFailed) { // the stream is refused when it has something to write
		err = nil
	}
	return false, err
}

// searchHole searches for a hole in the numbers of batches, no longer than sinks.HoleTime. It returns the hole, or nil. Only
// verify reads data topics for holes.
func (l *slotLog) searchHole(ctx context.Context) (*sinks.Hole, error) {
	return l.sink.searches.Search(l.slot, func(n *reader.Numbers, again bool, until time.Time) (*reader.Numbers, *sinks.Hole,
		error) {
		return l.sink.reader.Search(ctx, l.slot, l.control.Index, n, again, until)
	})
}

// Close aborts an open transaction, so that read_committed consumers do not wait for its timeout.
func (l *slotLog) Close() error {
	if l.broken == nil {
		l.broken = errClosed
		l.sink.abort(l.producer, l.broken)
	}
	return nil
}

package kafka

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/producer"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// slotLog writes one slot's batches.
//
// A batch is prepared (each change gets its partition), applied (its records, then the control records that
// speak of them, are written) and published (the transaction is committed). Invariants:
//  1. Records of one partition are written in the order of the batch's changes, one record batch in flight.
//  2. The batch's control record is written after all else was acknowledged.
//  3. After any error the outcome is unknown and the log writes no more: the slot is to be opened anew.
type slotLog struct {
	sink     *Sink
	slot     int
	epoch    int64
	producer *producer.Producer
	envelope change.Envelope

	topics  map[string]*producer.Topic
	streams map[*change.Stream]*producer.Topic
	control *producer.Partition
	dead    *producer.Topic // nil until it is needed

	batch  *change.Batch
	keys   []byte // of all changes of the batch, one after another
	keyEnd []int
	active []*producer.Partition
	stubs  map[int32]*stub // of changes that did not fit, by index

	// The headers that all records of the batch share, and room for those of one record.
	shared      []byte
	sharedCount int
	headers     []byte
	tail        []byte

	met     sighting // in the control topic, when the log was opened
	after   *tail    // what followed the checkpoint; nil where that was new
	history *history // of the whole cluster; nil until it is needed
	marked  int64    // the offset of this owner's "open" record

	broken error
}

var errClosed = errors.New("the log is closed")

func (l *slotLog) Write(ctx context.Context, b *change.Batch) (change.Offsets, error) {
	if l.broken != nil {
		return nil, fmt.Errorf("write batch %d of slot %d: the log must be opened anew: %w", b.Seq, l.slot, l.broken)
	}
	offsets, err := l.write(ctx, b)
	l.batch = nil // a quiet log holds none
	if err != nil {
		l.broken = err
		l.abandon()
		return nil, fmt.Errorf("write batch %d of slot %d: %w", b.Seq, l.slot, asInvalidWriter(err))
	}
	return offsets, nil
}

func (l *slotLog) write(ctx context.Context, b *change.Batch) (change.Offsets, error) {
	if err := l.prepare(ctx, b); err != nil {
		return nil, err
	}
	if err := l.apply(ctx); err != nil {
		return nil, err
	}
	return l.publish(ctx)
}

// prepare gives every change its partition.
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
	return nil
}

func (l *slotLog) begin(b *change.Batch) {
	for _, p := range l.active {
		p.Reset()
	}
	l.batch, l.active = b, l.active[:0]
	l.keys, l.keyEnd = l.keys[:0], l.keyEnd[:0]
	clear(l.stubs)
	l.shared = recordbatch.AppendHeader(l.shared[:0], change.HeaderSlot, strconv.Itoa(l.slot))
	l.shared = recordbatch.AppendHeader(l.shared, change.HeaderEpoch, strconv.FormatInt(l.epoch, 10))
	l.shared = recordbatch.AppendHeader(l.shared, change.HeaderBatch, strconv.FormatUint(b.Seq, 10))
	l.sharedCount = 3
}

// apply writes the changes and what could not be read, then the control records.
func (l *slotLog) apply(ctx context.Context) error {
	data := len(l.active)
	l.active = append(l.active, l.control)
	if err := l.producer.Add(ctx, l.active...); err != nil {
		return l.refusedToAdd(err)
	}
	failpoint.Hit(failpoint.TxnAdded)
	// l.active grows when a dead letter is written.
	if err := l.producer.Produce(ctx, l.active[:data:data]...); err != nil {
		return err
	}
	if err := l.writeMalformed(ctx); err != nil {
		return err
	}
	failpoint.Hit(failpoint.DataProduced)
	return l.writeControl(ctx, append(l.batch.Controls[:len(l.batch.Controls):len(l.batch.Controls)], l.batchControl()))
}

// publish commits, and says where the batch's records ended.
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
	return offsets, nil
}

// batchControl tells what the batch moves, and where its records stand.
func (l *slotLog) batchControl() change.Control {
	ranges := map[string]map[int][2]int64{}
	for _, p := range l.active {
		if !p.Written {
			continue
		}
		if ranges[p.Topic.Name] == nil {
			ranges[p.Topic.Name] = map[int][2]int64{}
		}
		ranges[p.Topic.Name][int(p.Index)] = [2]int64{p.First, p.Last}
	}
	bytes := 0
	for i := range l.batch.Changes {
		bytes += l.batch.Changes[i].Size()
	}
	return change.Control{
		Type: change.ControlBatch, Changes: len(l.batch.Changes), Bytes: int64(bytes), Malformed: len(l.batch.Malformed),
		Positions: l.batch.Positions, Ranges: ranges,
	}
}

// writeControl writes control records to the slot's partition of the control topic.
func (l *slotLog) writeControl(ctx context.Context, controls []change.Control) error {
	now := time.Now().UnixMilli()
	key := fmt.Appendf(nil, `{"cluster":%s,"slot":%d}`, mustJSON(l.envelope.Cluster), l.slot)
	for i := range controls {
		c := controls[i]
		c.Cluster, c.ClusterUID, c.Slot, c.Epoch, c.Batch = l.envelope.Cluster, l.sink.cfg.ClusterUID, l.slot, l.epoch, l.batch.Seq
		if c.TimeMs == 0 {
			c.TimeMs = now
		}
		value, err := json.Marshal(&c)
		if err != nil {
			return fmt.Errorf("encode control record %s: %w", c.Type, err)
		}
		headers := recordbatch.AppendHeader(l.shared[:len(l.shared):len(l.shared)], change.HeaderType, c.Type)
		l.control.QueueRecord(recordbatch.Record{
			Time: c.TimeMs, Key: key, Value: [][]byte{value}, Headers: headers, HeaderCount: l.sharedCount + 1,
		})
	}
	return l.producer.Produce(ctx, l.control)
}

func mustJSON(s string) []byte {
	b, _ := json.Marshal(s) // a string always can be
	return b
}

// topicOf gives the topic of a stream's records, made if need be.
func (l *slotLog) topicOf(ctx context.Context, s *change.Stream) (*producer.Topic, error) {
	if t := l.streams[s]; t != nil {
		return t, nil
	}
	name := change.Topic(l.envelope.Prefix, s.Resource)
	t, err := l.topic(ctx, name, l.sink.dataTopic)
	if err != nil {
		return nil, cmp.Or(l.Failed(name, err), err)
	}
	l.streams[s] = t
	return t, nil
}

func (l *slotLog) topic(ctx context.Context, name string, plan topicPlan) (*producer.Topic, error) {
	if t := l.topics[name]; t != nil {
		return t, nil
	}
	info, err := l.sink.topics.ensure(ctx, name, plan)
	if err != nil {
		return nil, err
	}
	t := producer.NewTopic(info.name, info.partitions, info.maxBatch)
	l.topics[name] = t
	return t, nil
}

// Close aborts what is open, so that readers of committed records need not wait for the transaction's timeout.
func (l *slotLog) Close() error {
	if l.broken == nil {
		l.broken = errClosed
		l.abandon()
	}
	return nil
}

// abandon aborts an open transaction as well as it can. One whose end was asked for is left to its fate.
func (l *slotLog) abandon() {
	if l.producer == nil || !l.producer.InTransaction() || cluster.Judge(l.broken) == cluster.Fenced {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := l.producer.End(ctx, false); err != nil {
		l.sink.cfg.Logger.Debug("can't abort the open transaction; its timeout or the next owner will", "slot", l.slot, "error", err)
	}
}

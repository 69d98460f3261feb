package reader

import (
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"time"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/logread"
)

// ControlTopicID returns the id of the control topic, without which there is no log.
func (r *Reader) ControlTopicID(ctx context.Context) (id string, err error) {
	topic := r.ControlTopic()
	err = r.Client.Try(ctx, "ask for the id of "+topic, func(ctx context.Context) error {
		ids, err := r.Client.TopicIDs(ctx, []string{topic})
		found := ids[topic]
		id = hex.EncodeToString(found[:])
		return err
	})
	return id, err
}

// Beginning implements sinks.Copier.
func (r *Reader) Beginning(ctx context.Context) (*sinks.Beginning, error) {
	r = r.all
	b := &sinks.Beginning{}
	topics, err := r.topics(ctx, nil)
	if err == nil {
		b.Lost, err = r.removed(ctx, topics)
	}
	var starts map[int]int64
	if err == nil {
		starts, _, err = r.Client.Bounds(ctx, r.ControlTopic())
	}
	expired := slices.ContainsFunc(slices.Collect(maps.Values(starts)), func(start int64) bool { return start > 0 })
	if err != nil || !expired {
		return b, err
	}
	err = r.controls(ctx, nil, func(c logread.Control) error {
		if c.Type != change.ControlBatch {
			return nil
		}
		b.Logged = time.UnixMilli(c.TimeMs)
		return sinks.ErrEnough
	})
	if err != nil && !errors.Is(err, sinks.ErrEnough) || b.Logged.IsZero() {
		return b, err
	}
	b.Batches, b.After.Offsets, err = r.cutsAt(ctx, b.Logged)
	for p, next := range b.After.Offsets[r.ControlTopic()] { // the records of a batch come before the one that ends it
		b.After.Offsets[r.ControlTopic()][p] = max(starts[p], next-recentControls)
	}
	return b, err
}

// Lived implements sinks.Copier. A slot without a batch record is cut by offsets.
func (r *Reader) Lived(ctx context.Context, b *sinks.Beginning, progress func(read, total int64),
	visit func(*sinks.Logged) error) error {
	before := func(l *sinks.Logged) bool {
		cut := sinks.Cut{Batches: b.Batches[l.Cluster], Offsets: b.After.Offsets}
		return cut.Has(l)
	}
	return (&scan{Query: sinks.Query{Wanted: before, Progress: progress}, reader: r.all, visit: visit}).run(ctx)
}

// These bound a group of batches.
const (
	copyChanges = 2000
	copyBytes   = 8 << 20
)

// Copy implements sinks.Copier. Records up to the last stable offset are in the order of the log, whoever reads them.
func (r *Reader) Copy(ctx context.Context, after sinks.Cut, visit func([]sinks.Copied, sinks.Cut) error) error {
	r = r.all
	topic := r.ControlTopic()
	starts, ends, err := r.Client.Bounds(ctx, topic)
	if err == nil {
		ends, err = r.Client.StableEnds(ctx, topic)
	}
	if err != nil {
		return err
	}
	for p, start := range starts {
		if next := after.Offsets[topic][p]; next < start || next > ends[p] {
			return sinks.ErrNotRetained
		}
	}
	c := &copier{reader: r, visit: visit, epochs: map[sinks.SlotID]int64{}, pending: map[sinks.SlotID][]logread.Control{},
		offsets: change.Offsets{topic: map[int]int64{}}.Merge(after.Offsets)}
	if err := lost(r.controlsTo(ctx, starts, after.Offsets[topic], ends, c.add(ctx))); err != nil {
		return err
	}
	next := maps.Clone(ends) // without records whose batch record has not come
	c.beforePending(next)
	if len(c.batches) == 0 && maps.Equal(next, c.offsets[topic]) {
		return nil
	}
	return c.flush(ctx, next)
}

// End implements sinks.Copier.
func (r *Reader) End(ctx context.Context) (sinks.Cut, error) {
	end := sinks.Cut{Offsets: change.Offsets{}}
	for _, topic := range []string{r.ControlTopic(), change.AuditTopic(r.Envelope.Prefix)} {
		_, ends, err := r.Client.SettledEnds(ctx, topic)
		if err != nil {
			return end, err
		}
		end.Offsets.Merge(change.Offsets{topic: ends})
	}
	return end, nil
}

// CopyAudits implements sinks.Copier.
func (r *Reader) CopyAudits(ctx context.Context, after sinks.Cut, visit func(*audit.Record) error) (sinks.Cut, error) {
	r = r.all
	topic := change.AuditTopic(r.Envelope.Prefix)
	firsts, ends, err := r.Client.Bounds(ctx, topic)
	for p := range firsts {
		firsts[p] = max(firsts[p], after.Offsets[topic][p])
	}
	if err == nil {
		err = r.auditsFrom(ctx, audit.Query{}, firsts, ends, visit)
	}
	after.Offsets = change.Offsets{}.Merge(after.Offsets).Merge(change.Offsets{topic: ends})
	return after, err
}

// copier collects batch records.
type copier struct {
	reader  *Reader
	visit   func([]sinks.Copied, sinks.Cut) error
	offsets change.Offsets
	epochs  map[sinks.SlotID]int64             // by slot: the newest owner
	pending map[sinks.SlotID][]logread.Control // by slot: records that no batch record has followed yet
	batches []logread.Control
	copied  []sinks.Copied
	changes int
	bytes   int64
}

func (c *copier) add(ctx context.Context) func(logread.Control) error {
	return func(record logread.Control) error {
		slot := record.SlotID()
		switch {
		case record.Epoch < c.epochs[slot]: // an owner that was being fenced, which at-least-once delivery does not stop
			return nil
		case record.Type == change.ControlOpen: // belongs to no batch
			c.epochs[slot] = record.Epoch
			return nil
		case record.Type != change.ControlBatch:
			c.pending[slot] = append(c.pending[slot], record)
			return nil
		}
		b := sinks.Copied{Cluster: record.Cluster, Logged: time.UnixMilli(record.TimeMs),
			Batch: change.Batch{Slot: record.Slot, Epoch: record.Epoch, Seq: record.Batch, Positions: record.Positions}}
		for _, p := range c.pending[slot] {
			if p.Epoch == record.Epoch && p.Batch == record.Batch {
				b.Controls = append(b.Controls, *p.Control)
			}
		}
		delete(c.pending, slot)
		c.batches, c.copied = append(c.batches, record), append(c.copied, b)
		c.changes, c.bytes = c.changes+record.Changes, c.bytes+record.Bytes
		if c.changes < copyChanges && c.bytes < copyBytes && len(c.batches) < copyChanges {
			return nil
		}
		next := map[int]int64{}
		for _, record := range c.batches {
			next[int(record.Partition)] = record.Offset + 1
		}
		c.beforePending(next)
		return c.flush(ctx, next)
	}
}

// beforePending moves offsets back to the first records without their batch record, which are read again.
func (c *copier) beforePending(next map[int]int64) {
	for _, records := range c.pending {
		if p := int(records[0].Partition); next[p] > records[0].Offset {
			next[p] = records[0].Offset
		}
	}
}

// flush reads the changes of the collected batches, and visits them with the cut after them. next are its offsets in the control
// topic.
func (c *copier) flush(ctx context.Context, next map[int]int64) error {
	err := c.read(ctx, c.batches)
	if errors.Is(err, consumer.ErrGone) {
		var left []logread.Control
		if left, err = c.clip(ctx); err == nil {
			err = c.read(ctx, left)
		}
	}
	if err != nil {
		return err
	}
	maps.Copy(c.offsets[c.reader.ControlTopic()], next)
	err = c.visit(c.copied, sinks.Cut{Offsets: change.Offsets{}.Merge(c.offsets)}) // which is the visitor's own
	c.batches, c.copied, c.changes, c.bytes = nil, nil, 0, 0
	return err
}

// read reads the changes of the collected batches. left are the same batches, with the offsets that remain.
func (c *copier) read(ctx context.Context, left []logread.Control) error {
	found, records := make([]int, len(c.batches)), make([]map[string]int64, len(c.batches))
	for i := range c.copied {
		c.copied[i].Changes, c.copied[i].Stubs, c.copied[i].Lacks = nil, nil, nil
	}
	exists := map[string]bool{}
	topics, err := c.reader.Topics(ctx)
	if err != nil {
		return err
	}
	for _, topic := range topics {
		exists[topic] = true
	}
	in := func(topic string) (bool, error) { return exists[topic], nil }
	err = c.reader.Batches(ctx, left, in, logread.Changes{Bodies: logread.All}, func(i int, l *sinks.Logged) error {
		if records[i] == nil {
			records[i] = map[string]int64{}
		}
		switch records[i][l.Topic]++; {
		case l.Value == nil: // the tombstone of a deletion that is gone, and with it the state before
		case l.Op == change.Delete:
			records[i][l.Topic]++ // its tombstone
			fallthrough
		default:
			found[i]++
		}
		if change.IsSnapshotTopic(c.reader.Envelope.Prefix, l.Topic) {
			return nil
		}
		b := &c.copied[i]
		if l.DeadLetter != "" {
			if b.Stubs == nil {
				b.Stubs = map[int]string{}
			}
			b.Stubs[len(b.Changes)] = l.DeadLetter
		}
		b.Changes = append(b.Changes, l.Clone().Change)
		return nil
	})
	for i, record := range c.batches {
		if found[i] < record.Changes {
			c.copied[i].Lacks = c.lacking(record, records[i])
		}
	}
	return err
}

// lacking returns the resources whose changes a batch may lack. Their topics have fewer records of the batch than offsets between
// its first and its last record. Other writers may explain the difference.
func (c *copier) lacking(record logread.Control, found map[string]int64) []string {
	var topics []string
	for topic, ranges := range record.Ranges {
		offsets := int64(0)
		for _, ends := range ranges {
			offsets += ends[1] + 1 - ends[0]
		}
		if found[topic] < offsets && c.reader.holds(topic, nil) {
			topics = append(topics, topic)
		}
	}
	return c.reader.idsOf(topics)
}

// clip returns the batches without the offsets before the starts of their partitions.
func (c *copier) clip(ctx context.Context) (left []logread.Control, err error) {
	starts := map[string]map[int]int64{}
	for _, record := range c.batches {
		end := *record.Control
		end.Ranges = map[string]map[int][2]int64{}
		for topic, ranges := range record.Ranges {
			if starts[topic] == nil {
				if starts[topic], _, err = c.reader.Client.Bounds(ctx, topic); err != nil {
					return nil, err
				}
			}
			end.Ranges[topic] = map[int][2]int64{}
			for p, ends := range ranges {
				if first := max(ends[0], starts[topic][p]); first <= ends[1] {
					end.Ranges[topic][p] = [2]int64{first, ends[1]}
				}
			}
		}
		record.Control = &end
		left = append(left, record)
	}
	return left, nil
}

package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/sinks"
)

// slotLog writes one slot's batches.
type slotLog struct {
	sink    *Sink
	slot    int
	epoch   int64
	id      int64  // of the slot's row
	cluster int64  // of the cluster's row
	first   uint64 // the first batch of this owner
	*Memory

	counts  map[int64]int64 // of the batch that is written: how many objects each stream has more
	streams map[change.StreamID]stream
	codecs  map[int64]codec // of the resources
	objects *objectCache
	end     context.CancelFunc // ends maintain

	spanned  span      // of the last batches
	unpacked []*object // those whose bodies are
	scratch  []byte    // in which bodies are packed
}

// stream is a row of log_streams.
type stream struct{ id, resource int64 }

func newSlotLog(s *Sink, slot int, epoch int64) *slotLog {
	l := &slotLog{sink: s, slot: slot, epoch: epoch, Memory: &Memory{newReader(s.file, s.Cluster)}}
	l.forget()
	return l
}

// forget drops what was learnt of rows: a transaction that made some of them was undone.
func (l *slotLog) forget() {
	l.streams, l.objects = map[change.StreamID]stream{}, newObjectCache(l.sink.BodyCacheBytes)
	l.codecs, l.spanned = map[int64]codec{}, span{}
}

var errStale = errors.New("the log's last batch is not the one before: it has this batch already; the next session finds out")

// Write is one transaction. It returns no offsets: the tables have none.
func (l *slotLog) Write(ctx context.Context, b *change.Batch) (change.Offsets, error) {
	defer l.release()
	err := l.sink.inTx(ctx, func(t *tx) error {
		err := l.write(ctx, t, b)
		failpoint.Hit(failpoint.DataProduced)
		return err
	})
	if err == nil {
		return nil, l.prove(ctx, b)
	}
	l.forget()
	if errors.Is(err, sinks.ErrInvalidWriter) {
		return nil, err
	}
	return nil, l.sink.file.Fail(fmt.Sprintf("write batch %d of slot %d", b.Seq, l.slot), err)
}

func (l *slotLog) write(ctx context.Context, t *tx, b *change.Batch) error {
	moved, err := t.run(advance, int64(b.Seq), l.id, l.epoch, int64(b.Seq)-1)
	if err != nil {
		return err
	}
	if moved == 0 {
		var mine bool
		if err := t.row(`select epoch = ? from log_slots where id = ?`, []any{l.epoch, l.id}, &mine); err != nil || mine {
			return errors.Join(errStale, err)
		}
		return sinks.ErrInvalidWriter
	}
	at, written, err := next(t)
	if err != nil {
		return err
	}
	positions, err := l.positions(t, b, written)
	if err != nil {
		return err
	}
	text, err := json.Marshal(positions)
	if err != nil {
		return err
	}
	if _, err := t.run(addBatch, at, l.id, l.epoch, int64(b.Seq), written, len(b.Changes), string(text)); err != nil {
		return err
	}
	plain, err := l.beside(t, at, b)
	if err == nil {
		err = l.span(t, batch{id: at, slot: l.id, written: written}, positions, plain && b.Seq != l.first) // which shows when it began
	}
	if err != nil {
		return err
	}
	l.counts = map[int64]int64{}
	for i := range b.Changes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := l.add(t, at+1+int64(i), &b.Changes[i]); err != nil {
			return err
		}
	}
	for i := range b.Unwritten {
		if err := l.note(t, &b.Unwritten[i]); err != nil {
			return err
		}
	}
	for stream, more := range l.counts {
		if more == 0 {
			continue
		}
		if _, err := t.run(countObjects, more, stream); err != nil {
			return err
		}
	}
	return nil
}

// lastBatch selects the last number that is taken, and when. The last batch is never removed.
const lastBatch = `select coalesce(max(id + changes), 0) as end, coalesce(max(written), 0) as written from
	(select id, changes, written from log_batches order by id desc limit 1)`

// next is the number of the next batch, and its time.
func next(t *tx) (at, written int64, err error) {
	err = t.find(lastNumber, nil, &at, &written)
	return at + 1, max(written, time.Now().UnixMilli()), err
}

// beside writes what a batch has besides its changes, and reports whether a span may hide that. The watermarks that its positions mark are no
// rows.
func (l *slotLog) beside(t *tx, at int64, b *change.Batch) (plain bool, err error) {
	plain = true
	for n := range b.Controls {
		c := b.Controls[n]
		if slices.ContainsFunc(b.Positions, func(p change.Position) bool { return marks(&c, &p) }) {
			continue
		}
		c.Version = change.LogVersion
		plain = plain && c.Type == change.ControlCurrent && len(c.Streams) == 0
		record, err := json.Marshal(&c)
		if err != nil {
			return false, err
		}
		if _, err := t.run(addControl, at, n, string(record)); err != nil {
			return false, err
		}
		if err := l.keepLast(t, c, string(record)); err != nil {
			return false, err
		}
	}
	for n, m := range b.Malformed {
		const add = `insert into log_dead_letters (batch, n, stream, reason, body) values (?, ?, ?, ?, ?)`
		if err := t.do(add, at, n, string(m.Stream), m.Reason, append([]byte{}, m.Bytes...)); err != nil {
			return false, err
		}
	}
	return plain, nil
}

// keepLast stores the last gap and the last proof of each stream. They are for a status alone.
func (l *slotLog) keepLast(t *tx, c change.Control, record string) error {
	if c.Stream == "" || c.Type != change.ControlGap && c.Type != change.ControlProof {
		return nil
	}
	of, err := l.stream(t, c.Stream)
	if err != nil {
		return err
	}
	return t.do(`insert into log_last_controls (stream, type, record) values (?, ?, ?)
		on conflict do update set record = excluded.record`, of.id, string(c.Type), record)
}

// positions notes what a batch does to positions, and returns its own as they are stored.
func (l *slotLog) positions(t *tx, b *change.Batch, written int64) ([]storedPosition, error) {
	for i := range b.Controls {
		if err := l.beginStream(t, &b.Controls[i]); err != nil {
			return nil, err
		}
	}
	all := make([]storedPosition, 0, len(b.Positions))
	for i := range b.Positions {
		p := &b.Positions[i]
		of, err := l.stream(t, p.Stream)
		if err != nil {
			return nil, err
		}
		if p.Ended == change.EndedRemoved {
			err = t.do(`delete from log_positions where stream = ?`, of.id)
		} else {
			_, err = t.run(movePosition, of.id, string(p.ResourceVersion), p.Time.UnixMilli(), string(p.Ended))
		}
		if err != nil {
			return nil, err
		}
		all = append(all, storedPosition{of.id, p.ResourceVersion, written - p.Time.UnixMilli(), 0, p.Ended})
		if slices.ContainsFunc(b.Controls, func(c change.Control) bool { return marks(&c, p) }) {
			all[i].marked = 1
		}
	}
	return all, nil
}

// beginStream gives a stream an empty position when its first list begins, or when it is to be written again from the start.
func (l *slotLog) beginStream(t *tx, c *change.Control) error {
	lost := c.Type == change.ControlGap && c.Gap.Lost()
	if c.Type != change.ControlSnapshotBegin && !lost {
		return nil
	}
	of, err := l.stream(t, c.Stream)
	if err != nil {
		return err
	}
	if lost {
		if err := t.do(`delete from log_positions where stream = ?`, of.id); err != nil {
			return err
		}
		const recount = `update log_streams set objects = (select count(*) from log_objects where stream = ?1 and gone is null) where id = ?1`
		if err := t.do(recount, of.id); err != nil {
			return err
		}
	}
	return t.do(`insert into log_positions (stream, version, time, ended) values (?, '', ?, '') on conflict do nothing`, of.id, c.TimeMs)
}

// stream returns the row of a stream, and makes it.
func (l *slotLog) stream(t *tx, id change.StreamID) (s stream, err error) {
	if s, known := l.streams[id]; known {
		return s, nil
	}
	const addStream = `insert into log_streams (resource, stream) values (?, ?) on conflict do update set stream = excluded.stream returning id`
	if err = t.find(addResource, []any{l.cluster, change.ResourceOf(id).ID()}, &s.resource); err == nil {
		err = t.row(addStream, []any{s.resource, string(id)}, &s.id)
	}
	l.streams[id] = s
	return s, err
}

// codec returns the codec of a resource. The first body that is packed makes its dictionary.
func (l *slotLog) codec(t *tx, resource int64, first *change.Change) (codec, error) {
	if c, known := l.codecs[resource]; known {
		return c, nil
	}
	var dictionary []byte
	err := t.row(`select dictionary from log_dictionaries where resource = ?`, []any{resource}, &dictionary)
	if errors.Is(err, sql.ErrNoRows) {
		if dictionary = dictionaryOf(first.After); dictionary == nil {
			return codec{}, nil
		}
		err = t.do(`insert into log_dictionaries values (?, ?)`, resource, dictionary)
	}
	l.codecs[resource] = codecOf(dictionary)
	return l.codecs[resource], err
}

// Columns of log_changes.op.
const (
	opInferred   = 1 << 8
	opFromBefore = 1 << 9 // the state before is that of the object's change before
	nanosShift   = 16     // above it: the nanoseconds of the time that its column lacks
)

// add writes one change.
func (l *slotLog) add(t *tx, id int64, c *change.Change) error {
	of, err := l.stream(t, c.Stream.ID())
	if err != nil {
		return err
	}
	whole, err := l.codec(t, of.resource, c)
	if err != nil {
		return err
	}
	name := nameOf(c, of)
	key := name.key()
	o, err := l.object(t, id, of, name, key)
	if err == nil {
		err = l.move(t, o, id, of, c.Op == change.Delete)
	}
	if err != nil {
		return err
	}
	follows, err := l.follows(o, c, whole)
	if err != nil {
		return err
	}
	op := int64(c.Op)
	if c.Inferred {
		op |= opInferred
	}
	if l.sink.Spool {
		op |= int64(c.Time.Nanosecond()%int(time.Millisecond)) << nanosShift
	}
	var before, gap any
	if follows {
		op |= opFromBefore
	} else if c.Before != nil {
		before = whole.pack(c.Before, &l.scratch)
	}
	back, body := l.pack(o, id, c, follows, whole)
	if c.Gap != "" {
		gap = c.Gap
	}
	l.objects.put(key, o)
	_, err = t.run(addChange, id, o.id, of.id, op, storedVersion(c.ResourceVersion), c.Time.UnixMilli(), gap, back, body, before)
	return err
}

// Close ends the maintenance. Between batches the log holds nothing else.
func (l *slotLog) Close() error {
	l.end()
	l.Memory.Close()
	return nil
}

package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/internal/fault"
	"kubecdc/sinks"
)

// slotLog writes one slot's batches.
type slotLog struct {
	sink    *Sink
	slot    int
	epoch   int64
	id      int64  // the id of the slot's row
	cluster int64  // the id of the cluster's row
	first   uint64 // the first batch of this owner
	*Memory

	counts  map[int64]int64 // by how many objects each stream grows with the batch that is written
	streams map[change.StreamID]stream
	codecs  map[int64]codec // by resource
	objects *objectCache
	end     context.CancelFunc // ends maintain

	spanned  span      // the span of the last batches
	unpacked []*object // the objects whose bodies are unpacked
	scratch  []byte    // for packing bodies
	sum      sum       // the checksum of the batch that is being written
}

// stream is a row of log_streams.
type stream struct{ id, resource int64 }

func newSlotLog(s *Sink, slot int, epoch int64) *slotLog {
	l := &slotLog{sink: s, slot: slot, epoch: epoch, Memory: &Memory{newReader(s.file, s.Cluster)}}
	l.forget()
	return l
}

// forget drops what was learnt about rows, because a transaction that added some of them was rolled back.
func (l *slotLog) forget() {
	l.streams, l.objects = map[change.StreamID]stream{}, newObjectCache(l.sink.BodyCacheBytes)
	l.codecs, l.spanned = map[int64]codec{}, span{}
}

var errStale = errors.New("the log's last batch is not the one before: it has this batch already; the next session finds out")

// Write writes a batch in one transaction. It returns no offsets, since the tables have none.
func (l *slotLog) Write(ctx context.Context, b *change.Batch) (change.Offsets, error) {
	defer l.release()
	err := l.sink.inTx(ctx, func(t *tx) error {
		err := l.write(ctx, t, b)
		failpoint.Hit(failpoint.DataProduced)
		return err
	})
	if err == nil {
		err = l.prove(ctx, b)
	} else {
		l.forget()
	}
	if errors.Is(err, sinks.ErrInvalidWriter) || fault.Is[*sinks.LostTailError](err) {
		return nil, err
	}
	return nil, l.sink.file.Fail(fmt.Sprintf("write batch %d of slot %d", b.Seq, l.slot), err)
}

func (l *slotLog) write(ctx context.Context, t *tx, b *change.Batch) error {
	if err := l.advance(t, b.Seq); err != nil {
		return err
	}
	id, written, err := next(t, time.Now())
	if err == nil {
		err = l.begin(t, id, written, b)
	}
	if err == nil {
		err = l.addAll(ctx, t, id, b.Changes, nil)
	}
	for i := range b.Unwritten {
		if err == nil {
			err = l.setVersion(t, &b.Unwritten[i])
		}
	}
	return err
}

// addAll writes the changes of a batch. stubs are the dead letters of some of them, by index.
func (l *slotLog) addAll(ctx context.Context, t *tx, id int64, changes []change.Change, stubs map[int]string) error {
	l.counts = map[int64]int64{}
	for i := range changes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := l.add(t, id+1+int64(i), &changes[i], stubs[i]); err != nil {
			return err
		}
	}
	if _, err := t.run(sumBatch, int64(l.sum), id); err != nil {
		return err
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

// advance moves the slot to a batch, if it is the next one and nobody else owns the slot.
func (l *slotLog) advance(t *tx, seq uint64) error {
	moved, err := t.run(advance, int64(seq), l.id, l.epoch, int64(seq)-1)
	if err != nil || moved > 0 {
		return err
	}
	var mine bool
	if err := t.row(`select epoch = ? from log_slots where id = ?`, []any{l.epoch, l.id}, &mine); err != nil || mine {
		return errors.Join(errStale, err)
	}
	return sinks.ErrInvalidWriter
}

// begin writes everything of a batch except its changes.
func (l *slotLog) begin(t *tx, id, written int64, b *change.Batch) error {
	positions, err := l.positions(t, b, written)
	if err != nil {
		return err
	}
	text, err := json.Marshal(positions)
	if err != nil {
		return err
	}
	if _, err := t.run(addBatch, id, l.id, l.epoch, int64(b.Seq), written, len(b.Changes), string(text)); err != nil {
		return err
	}
	l.sum = 0
	l.sum.add(id, l.id, l.epoch, int64(b.Seq), len(b.Changes), string(text))
	plain, err := l.writeControls(t, id, b)
	if err != nil {
		return err
	}
	// An owner's first batch ends a span, so that readers see when the owner began.
	return l.span(t, batch{id: id, slot: l.id, written: written}, positions, plain && b.Seq != l.first)
}

// lastBatch selects the last number that is in use, and its time. The last batch is never removed.
const lastBatch = `select coalesce(max(id + changes), 0) as end, coalesce(max(written), 0) as written from
	(select id, changes, written from log_batches order by id desc limit 1)`

// next returns the number of the next batch, and its time. That is never before the time of the last batch.
func next(t *tx, now time.Time) (id, written int64, err error) {
	err = t.find(lastNumber, nil, &id, &written)
	return id + 1, max(written, now.UnixMilli()), err
}

// writeControls writes the control records of a batch and its malformed events, and reports whether a span may contain the batch.
// Watermarks that are implied by positions get no rows.
func (l *slotLog) writeControls(t *tx, id int64, b *change.Batch) (plain bool, err error) {
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
		if _, err := t.run(addControl, id, n, string(record)); err != nil {
			return false, err
		}
		l.sum.add(n, string(record))
		if err := l.keepLast(t, c, string(record)); err != nil {
			return false, err
		}
	}
	for n, m := range b.Malformed {
		const add = `insert into log_dead_letters (batch, n, stream, reason, body) values (?, ?, ?, ?, ?)`
		if err := t.do(add, id, n, string(m.Stream), m.Reason, append([]byte{}, m.Bytes...)); err != nil {
			return false, err
		}
	}
	return plain, nil
}

// keepLast stores the last gap and the last proof of each stream, for the status only.
func (l *slotLog) keepLast(t *tx, c change.Control, record string) error {
	if c.Stream == "" || c.Type != change.ControlGap && c.Type != change.ControlProof {
		return nil
	}
	row, err := l.stream(t, c.Stream)
	if err != nil {
		return err
	}
	return t.do(`insert into log_last_controls (stream, type, record) values (?, ?, ?)
		on conflict do update set record = excluded.record`, row.id, string(c.Type), record)
}

// stream returns the row of a stream. It adds the row if it is missing.
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

// Close ends the maintenance. Between batches, the log has nothing else to close.
func (l *slotLog) Close() error {
	l.end()
	l.Memory.Close()
	return nil
}

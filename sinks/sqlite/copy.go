package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Copy writes the batches of another log into the file, with their clusters, numbers and times. A file with a copy has no
// exporter.
type Copy struct {
	sink     *Sink
	log      *slotLog // is moved from slot to slot, since objects move too
	clusters map[string]*copiedCluster
	slots    map[sinks.SlotID]*copiedSlot
}

// copiedCluster is a row of log_clusters, with the streams of its cluster.
type copiedCluster struct {
	id      int64
	streams map[change.StreamID]stream
}

// copiedSlot is a row of log_slots.
type copiedSlot struct {
	id, epoch int64
	seq       uint64
	spanned   span
}

// ErrNumbersAgain says that a later owner of a slot has given out numbers again, since the log had lost its last batches.
var ErrNumbersAgain = errors.New("the numbers of batches come again")

// Copied is how far a file has another log.
type Copied struct {
	Identity string    // the other log; empty: the copy begins anew
	After    sinks.Cut // up to here
}

// NewCopy goes on with the copy in a file, if there is one.
func (s *Sink) NewCopy(ctx context.Context) (c *Copy, has Copied, err error) {
	c = &Copy{sink: s, log: newSlotLog(s, 0, 0)}
	c.forget()
	has, err = c.log.reader.Copied(ctx)
	return c, has, err
}

// Copied returns how far the file has a copy of another log. If it has no copy, the identity is empty.
func (r *Reader) Copied(ctx context.Context) (has Copied, err error) {
	var cut []byte
	err = r.file.DB().QueryRowContext(ctx, `select identity, cut from log_copied`).Scan(&has.Identity, &cut)
	if errors.Is(err, sql.ErrNoRows) {
		return has, nil
	}
	if err == nil {
		err = json.Unmarshal(cut, &has.After)
	}
	return has, r.fail("find out what the file is a copy of", err)
}

// Mark stores how far the file has the other log.
func (c *Copy) Mark(ctx context.Context, has Copied) error {
	return c.inTx(ctx, func(t *tx) error { return c.store(t, has) })
}

func (c *Copy) forget() {
	c.log.forget()
	c.clusters, c.slots = map[string]*copiedCluster{}, map[sinks.SlotID]*copiedSlot{}
}

// Close does not close the file.
func (c *Copy) Close() { c.log.Memory.Close() }

// inTx writes, and forgets what was learned about rows if that fails.
func (c *Copy) inTx(ctx context.Context, do func(*tx) error) error {
	defer c.log.release()
	err := c.sink.inTx(ctx, do)
	if err != nil {
		c.forget()
	}
	if errors.Is(err, ErrNumbersAgain) {
		return err
	}
	return c.sink.file.Fail("copy the log", err)
}

// moveTo moves the writer to a cluster.
func (c *Copy) moveTo(t *tx, name string) (err error) {
	k := c.clusters[name]
	if k == nil {
		k = &copiedCluster{streams: map[change.StreamID]stream{}}
		k.id, err = c.sink.bind(t, name)
		c.clusters[name] = k
	}
	c.log.cluster, c.log.streams = k.id, k.streams
	return err
}

// Lived writes changes of a cluster before the beginning of the copy. The file retains the last state of live objects (Begin).
// The changes of an object must come in their order.
func (c *Copy) Lived(ctx context.Context, b *sinks.Copied) error {
	return c.inTx(ctx, func(t *tx) error {
		if err := c.moveTo(t, b.Cluster); err != nil {
			return err
		}
		id, written, err := next(t, b.Logged)
		if err == nil {
			_, err = t.run(addBatch, id, 0, 0, 0, written, len(b.Changes), "[]") // without a slot
		}
		if err != nil {
			return err
		}
		return c.log.addAll(ctx, t, id, b.Changes, b.Stubs)
	})
}

// Begin ends the part before the copy's beginning.
func (c *Copy) Begin(ctx context.Context, identity string, b *sinks.Beginning) error {
	var end int64
	err := c.sink.file.DB().QueryRowContext(ctx, `select end from (`+lastBatch+`)`).Scan(&end)
	if err == nil && end > 0 {
		err = c.sink.removeUpTo(ctx, end)
	}
	if err != nil {
		return c.sink.file.Fail("begin the copy", err)
	}
	return c.inTx(ctx, func(t *tx) error {
		for cluster, place := range b.Batches {
			for number, seq := range place {
				s, err := c.slot(t, sinks.SlotID{Cluster: cluster, Slot: number})
				if err == nil {
					s.seq = seq
					err = t.do(`update log_slots set seq = ? where id = ?`, int64(seq), s.id)
				}
				if err != nil {
					return err
				}
			}
		}
		for cluster, lost := range b.Lost {
			for resource, what := range lost {
				if err := cmp.Or(c.moveTo(t, cluster), c.lacks(t, resource, time.Time{}, what)); err != nil {
					return err
				}
			}
		}
		return c.store(t, Copied{identity, b.After})
	})
}

func (c *Copy) store(t *tx, has Copied) error {
	text, err := json.Marshal(has.After)
	if err == nil {
		err = t.do(`delete from log_copied`)
	}
	if err == nil {
		err = t.do(`insert into log_copied values (?, ?)`, has.Identity, string(text))
	}
	return err
}

// Write writes batches in one transaction. After it the file has that much of the log.
func (c *Copy) Write(ctx context.Context, batches []sinks.Copied, has Copied) error {
	return c.inTx(ctx, func(t *tx) error {
		for i := range batches {
			if err := c.write(ctx, t, &batches[i]); err != nil {
				return err
			}
		}
		return c.store(t, has)
	})
}

func (c *Copy) write(ctx context.Context, t *tx, b *sinks.Copied) error {
	s, err := c.slot(t, sinks.SlotID{Cluster: b.Cluster, Slot: b.Slot})
	if err != nil {
		return err
	}
	switch {
	case b.Seq > s.seq:
	case s.epoch > 0 && b.Epoch > s.epoch:
		return fmt.Errorf("batch %d of slot %d follows batch %d: %w", b.Seq, b.Slot, s.seq, ErrNumbersAgain)
	default:
		return nil // it was copied
	}
	l := c.log
	if l.id, l.slot, l.first = s.id, b.Slot, 0; s.epoch != b.Epoch {
		l.first = b.Seq
	}
	l.epoch, s.epoch, s.seq = b.Epoch, b.Epoch, b.Seq
	l.spanned = s.spanned
	if err := t.do(`update log_slots set seq = ?, epoch = ? where id = ?`, int64(b.Seq), b.Epoch, s.id); err != nil {
		return err
	}
	id, written, err := next(t, b.Logged)
	if err == nil {
		err = l.begin(t, id, written, &b.Batch)
		s.spanned = l.spanned
	}
	if err == nil {
		err = l.addAll(ctx, t, id, b.Changes, b.Stubs)
	}
	for _, resource := range b.Lacks {
		if err == nil {
			err = c.lacks(t, resource, b.Logged.Add(time.Millisecond), "")
		}
	}
	for i := range b.Controls {
		if gap := b.Controls[i].Gap; err == nil && gap != nil && gap.Lost() { // the loss has its gap record now
			var row stream
			if row, err = l.stream(t, b.Controls[i].Stream); err == nil {
				err = t.do(`update log_incomplete set lost = '' where resource = ?`, row.resource)
			}
		}
	}
	return err
}

// lacks records that a resource is complete only since a time.
func (c *Copy) lacks(t *tx, resource string, since time.Time, lost string) error {
	var id int64
	if err := t.find(addResource, []any{c.log.cluster, resource}, &id); err != nil {
		return err
	}
	return t.do(`insert into log_incomplete values (?, ?, ?) on conflict do update set since = max(since, excluded.since)`,
		id, max(since.UnixMilli(), 0), lost)
}

// slot moves the writer to the cluster of a slot, and returns the slot's row.
func (c *Copy) slot(t *tx, id sinks.SlotID) (*copiedSlot, error) {
	err := c.moveTo(t, id.Cluster)
	if s := c.slots[id]; s != nil || err != nil {
		return s, err
	}
	s := &copiedSlot{}
	const add = `insert into log_slots (cluster, slot, epoch) values (?, ?, 0) on conflict do update set epoch = epoch returning id, epoch, seq`
	c.slots[id] = s
	return s, t.row(add, []any{c.log.cluster, id.Slot}, &s.id, &s.epoch, &s.seq)
}

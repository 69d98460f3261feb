package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kubecdc/change"
	"kubecdc/internal/pgdb"
	"kubecdc/sinks"
)

// The tables lack what batches have put there if somebody has removed rows, or restored a part of the tables. counts has how many objects
// of each stream there are by all batches, and batches how many changes each batch has. To count all changes takes long: a reader and a new
// owner count those of the first batch in each partition, and with each proof the owner counts those of the next batches. A batch does not
// tell of which streams it lacks changes: of all of the slot, unless objects are missing, which tells.

// fewerObjects selects the streams of a resource (empty: of all) of which objects has another number of rows than counts says.
const fewerObjects = `select k.stream, k.objects, n.found from kubecdc_log.counts k cross join lateral (
		select count(*) as found from kubecdc_log.objects o where o.cluster = k.cluster and o.stream = k.stream) n
	where k.cluster = $1 and ($2 = '' or split_part(split_part(k.stream, '?', 1), '@', 1) = $2) and k.objects <> n.found`

// removedObjects says of each stream that lacks objects what it lacks.
func removedObjects(ctx context.Context, db *pgdb.DB, cluster, resource string) (map[change.StreamID]string, error) {
	var stream change.StreamID
	var known, found int64
	lost := map[change.StreamID]string{}
	return lost, pgdb.Querier{DB: db}.Rows(ctx, fewerObjects, []any{cluster, resource}, []any{&stream, &known, &found}, func() error {
		lost[stream] = fmt.Sprintf("rows were removed from the table objects: it has %d of %s, and all batches together have written %d",
			found, stream, known)
		return nil
	})
}

// countedChanges selects batches of a slot (b), with the changes that they have and those that are there. Of what a gap record says nothing
// else is asked.
const countedChanges = `select b.epoch, b.seq, b.changes, (select count(*) from kubecdc_log.changes c
		where (c.cluster, c.slot, c.epoch, c.batch, c.written) = (b.cluster, b.slot, b.epoch, b.seq, b.written))
	from kubecdc_log.slots s cross join lateral `

// firstBatches are the first ones with changes in each partition.
const firstBatches = countedChanges + `(select f.* from kubecdc_log.partitions p cross join lateral (
		select * from kubecdc_log.batches where cluster = s.cluster and slot = s.slot and changes > 0 and written > s.recorded
			and written >= p.lower and written < p.upper order by epoch, seq limit 1) f
		where p.parent = 'batches' and p.upper > s.recorded) b
	where s.cluster = $1 and s.slot = $2`

// nextBatches are those that follow one.
const nextBatches = countedChanges + `(select * from kubecdc_log.batches where cluster = s.cluster and slot = s.slot and written > s.recorded
		and (epoch, seq) > ($3, $4) order by epoch, seq limit $5) b
	where s.cluster = $1 and s.slot = $2 order by b.epoch, b.seq`

// batchesAProof is how many batches are counted with each proof.
const batchesAProof = 1000

// errCounted ends a reading.
var errCounted = errors.New("a batch lacks changes")

// removedChanges says what the first batch lacks that lacks changes; empty: none does. It returns the last batch, and how many there were.
func removedChanges(ctx context.Context, db *pgdb.DB, query string, args ...any) (lost string, last storedBatch, n int, err error) {
	found := 0
	err = pgdb.Querier{DB: db}.Rows(ctx, query, args, []any{&last.epoch, &last.seq, &last.changes, &found}, func() error {
		if n++; found != last.changes {
			lost = fmt.Sprintf("rows were removed from the table changes: batch %d of slot %d has %d of its %d changes", last.seq, args[1], found,
				last.changes)
			return errCounted
		}
		return nil
	})
	if errors.Is(err, errCounted) {
		err = nil
	}
	return lost, last, n, err
}

// losses returns what the tables have lost; nil: nothing that is known of.
func (l *slotLog) losses(ctx context.Context) (*sinks.LostTailError, error) {
	objects, err := removedObjects(ctx, l.sink.db, l.sink.cluster, "")
	if err != nil || len(objects) > 0 {
		return lossOf(objects, ""), err
	}
	changes, _, _, err := removedChanges(ctx, l.sink.db, firstBatches, l.sink.cluster, l.slot)
	return lossOf(nil, changes), err
}

func lossOf(objects map[change.StreamID]string, changes string) *sinks.LostTailError {
	texts := slices.Sorted(maps.Values(objects))
	if changes != "" {
		texts = append(texts, changes)
	}
	if len(texts) == 0 {
		return nil
	}
	return &sinks.LostTailError{TailRead: true, Reason: strings.Join(texts, "; "),
		Gone: func(s change.StreamID) bool { return changes != "" || objects[s] != "" }}
}

// prove looks for losses with a batch that has proofs.
func (l *slotLog) prove(ctx context.Context, b *change.Batch) error {
	objects := map[change.StreamID]string{}
	proofs := 0
	for i := range b.Controls {
		if b.Controls[i].Type != change.ControlProof {
			continue
		}
		proofs++
		lost, err := removedObjects(ctx, l.sink.db, l.sink.cluster, change.ResourceOf(b.Controls[i].Stream).ID())
		if err != nil {
			return l.sink.db.Fail("count the objects of the log", err)
		}
		maps.Copy(objects, lost)
	}
	if loss := lossOf(objects, ""); loss != nil {
		return loss
	}
	if proofs == 0 {
		return nil
	}
	changes, last, n, err := removedChanges(ctx, l.sink.db, nextBatches, l.sink.cluster, l.slot, l.counted.epoch, int64(l.counted.seq), batchesAProof)
	if err != nil {
		return l.sink.db.Fail("count the changes of the log", err)
	}
	if l.counted = last; n < batchesAProof {
		l.counted = storedBatch{}
	}
	if loss := lossOf(nil, changes); loss != nil {
		return loss
	}
	return nil
}

// Lost counts as a new owner does.
func (r *Reader) Lost(ctx context.Context, resource string) (string, error) {
	const op = "find out whether the log has lost anything"
	objects, err := removedObjects(ctx, r.db, r.cluster, "")
	if err != nil {
		return "", r.db.Fail(op, err)
	}
	if len(objects) > 0 {
		maps.DeleteFunc(objects, func(s change.StreamID, _ string) bool { return change.ResourceOf(s).ID() != resource })
		if loss := lossOf(objects, ""); loss != nil {
			return sinks.Unrecorded("%s", loss.Reason), nil
		}
		return "", nil
	}
	slots, err := r.End(ctx)
	if err != nil {
		return "", err
	}
	for _, slot := range slices.Sorted(maps.Keys(slots.Batches)) {
		changes, _, _, err := removedChanges(ctx, r.db, firstBatches, r.cluster, slot)
		if err != nil {
			return "", r.db.Fail(op, err)
		}
		if changes != "" {
			return sinks.Unrecorded("%s", changes), nil
		}
	}
	return "", nil
}

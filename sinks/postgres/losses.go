package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"kubecdc/change"
	"kubecdc/internal/pgdb"
	"kubecdc/sinks"
)

// The tables may lack what batches have written, if somebody has removed rows or restored a part of the tables. The table counts
// has the number of objects of each stream after all batches. The table batches has the number of changes in each batch.
//
// Counting all changes would take long. So a reader and a new owner only count in the first batch of each partition. With each
// proof, the owner counts in some of the batches that follow. If a batch lacks changes, their streams are unknown. Then all
// streams of the slot count as losing changes, unless the missing objects show which ones do.

// fewerObjects selects the streams of some resources whose number of rows in objects is not the one in counts. If the parameter
// is null, it selects from all.
const fewerObjects = `select k.stream, k.objects, n.found from kubecdc_log.counts k cross join lateral (
		select count(*) as found from kubecdc_log.objects o where o.cluster = k.cluster and o.stream = k.stream) n
	where k.cluster = $1 and ($2::text[] is null or split_part(split_part(k.stream, '?', 1), '@', 1) = any($2)) and k.objects <> n.found`

// removedObjects says what each stream lacks, for those streams of some resources that lack objects. If resources is nil, it
// reads all.
func (r *Reader) removedObjects(ctx context.Context, resources []string) (map[change.StreamID]string, error) {
	var stream change.StreamID
	var known, found int64
	lost := map[change.StreamID]string{}
	return lost, pgdb.Querier{DB: r.db}.Rows(ctx, fewerObjects, []any{r.cluster, resources}, []any{&stream, &known, &found},
		func() error {
			lost[stream] = fmt.Sprintf("rows were removed from the table objects: it has %d of %s, and all batches "+
				"together have "+
				"written %d",
				found, stream, known)
			return nil
		})
}

// countedChanges selects batches of a slot (b), with the number of changes that they should have and that they have. Losses that
// a gap record already covers are left out.
const countedChanges = `select b.epoch, b.seq, b.changes, (select count(*) from kubecdc_log.changes c
		where (c.cluster, c.slot, c.epoch, c.batch, c.written) = (b.cluster, b.slot, b.epoch, b.seq, b.written))
	from kubecdc_log.slots s cross join lateral `

// firstBatches selects the first batches with changes in each partition.
const firstBatches = countedChanges + `(select f.* from kubecdc_log.partitions p cross join lateral (
		select * from kubecdc_log.batches where cluster = s.cluster and slot = s.slot and changes > 0 and written > s.recorded
			and written >= p.lower and written < p.upper order by epoch, seq limit 1) f
		where p.parent = 'batches' and p.upper > s.recorded) b
	where s.cluster = $1 and s.slot = $2`

// nextBatches selects the batches after a given one.
const nextBatches = countedChanges + `(select * from kubecdc_log.batches where cluster = s.cluster and slot = s.slot and written > s.recorded
		and (epoch, seq) > ($3, $4) order by epoch, seq limit $5) b
	where s.cluster = $1 and s.slot = $2 order by b.epoch, b.seq`

// batchesAProof is how many batches are counted with each proof.
const batchesAProof = 1000

// errCounted stops a read when a batch that lacks changes was found.
var errCounted = errors.New("a batch lacks changes")

// removedChanges finds the first batch that lacks changes, and says what it lacks. If no batch does, lost is empty. It returns
// the last batch, and how many batches there were.
func (r *Reader) removedChanges(ctx context.Context, query string, args ...any) (lost string, last storedBatch, n int,
	err error) {
	found := 0
	err = pgdb.Querier{DB: r.db}.Rows(ctx, query, args, []any{&last.epoch, &last.seq, &last.changes, &found}, func() error {
		if n++; found != last.changes {
			lost = fmt.Sprintf("rows were removed from the table changes: batch %d of slot %d has %d of its %d changes", last.seq,
				args[1], found,
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

// removed returns what the tables have lost. Changes are counted for some slots only.
func (r *Reader) removed(ctx context.Context, slots ...int) (found sinks.Removed, err error) {
	found.Objects, err = r.removedObjects(ctx, nil)
	for _, slot := range slots {
		if err != nil || found.Loss() != nil {
			break
		}
		found.Changes, _, _, err = r.removedChanges(ctx, firstBatches, r.cluster, slot)
	}
	return found, err
}

// prove finds losses when a batch has proofs.
func (l *slotLog) prove(ctx context.Context, b *change.Batch) (err error) {
	proved := sinks.Proved(b)
	if proved == nil {
		return nil
	}
	var found sinks.Removed
	if found.Objects, err = l.reader.removedObjects(ctx, proved); err != nil {
		return l.sink.db.Fail("count the objects of the log", err)
	}
	if loss := found.Loss(); loss != nil {
		return loss
	}
	changes, last, n, err := l.reader.removedChanges(ctx, nextBatches, l.sink.cluster, l.slot, l.counted.epoch,
		int64(l.counted.seq), batchesAProof)
	if err != nil {
		return l.sink.db.Fail("count the changes of the log", err)
	}
	if l.counted = last; n < batchesAProof {
		l.counted = storedBatch{}
	}
	if loss := (&sinks.Removed{Changes: changes}).Loss(); loss != nil {
		// streams without a proof in this batch may have lost them
		if found.Objects, err = l.reader.removedObjects(ctx, nil); err != nil {
			return l.sink.db.Fail("count the objects of the log", err)
		}
		return cmp.Or(found.Loss(), loss)
	}
	hole, err := l.searchHole(ctx)
	if hole != nil {
		return hole
	}
	return err
}

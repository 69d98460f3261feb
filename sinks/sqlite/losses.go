package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"kubecdc/change"
	"kubecdc/sinks"
)

// removed returns what each stream of some resources lacks, if somebody has removed rows. If resources is nil, it reads all.
func (r *Reader) removed(ctx context.Context, resources []string) (sinks.Removed, error) {
	const query = `select s.stream, s.objects, (select count(*) from log_objects where stream = s.id and gone is null) ` +
		selected +
		`join log_streams s on s.resource = r.id`
	lost := map[change.StreamID]string{}
	err := each(ctx, r.db, query, []any{r.cluster, list(resources)}, func(rows *sql.Rows) error {
		var stream change.StreamID
		var known, found int64
		if err := rows.Scan(&stream, &known, &found); err != nil || known == found {
			return err
		}
		lost[stream] = fmt.Sprintf("rows were removed from the table log_objects: it has %d of %s, and all batches together "+
			"have written %d",
			found, stream, known)
		return nil
	})
	return sinks.Removed{Objects: lost}, r.fail("count the objects of the log", err)
}

// prove finds losses when a batch has proofs.
func (l *slotLog) prove(ctx context.Context, b *change.Batch) error {
	proved := sinks.Proved(b)
	if proved == nil {
		return nil
	}
	lost, err := l.reader.removed(ctx, proved)
	if loss := lost.Loss(); err == nil && loss != nil {
		return loss
	}
	if err != nil || l.sink.Spool {
		return err
	}
	hole, err := l.searchHole(ctx)
	if hole != nil {
		return hole
	}
	return err
}

package sqlite

import (
	"context"

	"kubecdc/change"
	"kubecdc/sinks"
)

// What lives now, of a stream; what lived at a number, of some streams, with its batch; and with it what was deleted by then, as no event
// told. The parameter is that stream, or a list of them.
var (
	living = selection{`o.gone is null and o.stream = ?2`, noBatch, false}
	lived  = selection{ofStreams + `(o.gone is null or o.gone > ?3)`, itsBatch, false}
	known  = selection{ofStreams + `(o.gone is null or o.gone > ?3 or
		(select op & 256 or gap is not null from log_changes where id = o.gone))`, itsBatch, true}
)

const ofStreams = `o.stream in (select value from json_each(?2)) and o.id <= ?3 and `

type selection struct {
	objects, batch string
	deletions      bool
}

// lastChanges visits the last change of each of some objects, up to a number; of those only whose last one is no deletion.
func lastChanges(
	ctx context.Context, db queries, which selection, arg any, withBodies bool, to int64, visit func(*record, *sinks.Logged) error,
) error {
	query := columns(imagesIf(withBodies, lastImage), which.batch) + byObject + `where o.id > ?1 and ` + which.objects + ` and c.id =
		(select id from log_changes where object = o.id and id <= ?3 order by id desc limit 1) order by o.id`
	names, made := streamNames{db: db}, newBodies(db)
	for after, more := int64(0), true; more; {
		var records []record
		var err error
		if records, more, err = page(ctx, db, query, after, arg, to); err != nil {
			return err
		}
		for i := range records {
			r := &records[i]
			told := r.op&opInferred == 0 && !r.gap.Valid
			if after = r.object; change.Op(r.op) == change.Delete && (told || !which.deletions) {
				continue
			}
			var l sinks.Logged
			r.into(&l.Change)
			if l.Stream, err = names.of(ctx, r.stream); err != nil {
				return err
			}
			if withBodies {
				if l.After, err = made.after(ctx, r); err != nil {
					return err
				}
			}
			if err := visit(r, &l); err != nil {
				return err
			}
		}
	}
	return nil
}

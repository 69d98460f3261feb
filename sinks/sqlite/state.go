package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// State reads the positions as they are, and of each object that lives the last change.
func (l *slotLog) State(ctx context.Context, wanted sinks.Selection) (*sinks.State, error) {
	state := &sinks.State{Seq: l.past.seq, Epoch: l.epoch - 1}
	var streams []int64
	const look = `select s.id, s.stream, p.version, p.time, p.ended from log_streams s join log_resources r on r.id = s.resource
		left join log_positions p on p.stream = s.id where r.cluster = ? order by s.id`
	err := each(ctx, l.sink.file.DB(), look, []any{l.cluster}, func(rows *sql.Rows) error {
		var id int64
		var name change.StreamID
		var version, ended sql.NullString
		var at sql.NullInt64
		if err := rows.Scan(&id, &name, &version, &at, &ended); err != nil || !wanted.Stream(name) {
			return err
		}
		streams = append(streams, id)
		if version.Valid {
			state.Positions = append(state.Positions, change.Position{Stream: name, ResourceVersion: change.ResourceVersion(version.String),
				Time: time.UnixMilli(at.Int64).UTC(), Ended: change.Ended(ended.String)})
		}
		return nil
	})
	if err == nil {
		state.Lost, err = l.losses(ctx)
	}
	for _, id := range streams {
		if err == nil {
			var n int64
			err = l.sink.file.DB().QueryRowContext(ctx, `select count(*) from log_objects where gone is null and stream = ?`, id).Scan(&n)
			state.Records += n
		}
	}
	if err != nil {
		return nil, l.sink.file.Fail(fmt.Sprintf("find out what the log has of slot %d's streams", l.slot), err)
	}
	state.Fold = func(ctx context.Context, visit func(*change.Change) error, progress func(sinks.Progress)) (done sinks.Progress, err error) {
		for _, id := range streams {
			err := lastChanges(ctx, l.sink.file.DB(), living, id, wanted.Bodies, l.past.end, func(_ *record, next *sinks.Logged) error {
				done.Records++
				done.Bytes += int64(len(next.After))
				progress(done)
				next.Op = change.Create
				return visit(&next.Change)
			})
			if err != nil {
				return done, err
			}
		}
		return done, nil
	}
	return state, nil
}

// Has looks into the table of objects.
func (l *slotLog) Has(ctx context.Context, s *change.Stream) (has bool, err error) {
	const look = `select exists (select 1 from log_streams s join log_resources r on r.id = s.resource join log_objects o on o.stream = s.id
		where r.cluster = ? and s.stream = ? and o.gone is null)`
	err = l.sink.file.DB().QueryRowContext(ctx, look, l.cluster, string(s.ID())).Scan(&has)
	return has, l.sink.file.Fail("find out whether the log has objects of "+string(s.ID()), err)
}

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

package sqlite

import (
	"context"

	"kubecdc/change"
	"kubecdc/sinks"
)

// These select the objects whose last change is read. The parameter is one stream, some keys, or a list of streams. living and
// ofKeys select what lives now. lived selects what lived at a number, with its batch. known also selects what was deleted by then
// without an observed event.
var (
	living = selection{`o.gone is null and o.stream = ?2`, noBatch, false}
	ofKeys = selection{`o.id in (select x.id from json_each(?2 -> 'keys') k cross join log_objects x on x.resource = ?2 ->> 'resource' and
		x.namespace = k.value ->> 0 and x.name = k.value ->> 1 and x.gone is null and x.stream = ?2 ->> 'stream')`, noBatch, false}
	lived = selection{ofStreams + `(o.gone is null or o.gone > ?3)`, itsBatch, false}
	known = selection{ofStreams + `(o.gone is null or o.gone > ?3 or
		(select op & 256 or gap is not null from log_changes where id = o.gone))`, itsBatch, true}
)

const ofStreams = `o.stream in (select value from json_each(?2)) and o.id <= ?3 and `

type selection struct {
	objects, batch string
	deletions      bool
}

// lastChanges visits the last change of each of some objects, up to a number. Deletions are visited only if they are selected.
func (r *Reader) lastChanges(
	ctx context.Context, which selection, arg any, bodies bool, to int64, visit func(*record, *sinks.Logged) error,
) error {
	query := columns(imagesIf(bodies, lastImage), which.batch) + byObject + `where o.id > ?1 and ` + which.objects + ` and c.id =
		(select id from log_changes where object = o.id and id <= ?3 order by id desc limit 1) order by o.id`
	names, made := streamNames{db: r.db}, newBodies(r.db)
	for after, more := int64(0), true; more; {
		var records []record
		var err error
		if records, more, err = page(ctx, r.db, query, after, arg, to); err != nil {
			return err
		}
		for i := range records {
			record := &records[i]
			observed := record.op&opInferred == 0 && !record.gap.Valid
			if after = record.object; change.Op(record.op) == change.Delete && (observed || !which.deletions) {
				continue
			}
			var l sinks.Logged
			record.into(&l.Change)
			if l.Stream, err = names.stream(ctx, record.stream); err != nil {
				return err
			}
			if bodies {
				if l.After, err = made.after(ctx, record); err != nil {
					return err
				}
			}
			if err := visit(record, &l); err != nil {
				return err
			}
		}
	}
	return nil
}

// table visits what lives now.
func (s *scan) table(ctx context.Context) error {
	streams, err := s.reader.streamsOf(ctx, s.Resources)
	for _, id := range streams {
		if err == nil {
			err = s.reader.lastChanges(ctx, living, id, !s.NoBodies, 1<<62, func(_ *record, l *sinks.Logged) error { return s.selected(l) })
		}
	}
	return err
}

// last visits the state at a cut. Slots end at different numbers, so if there are several, it visits every change.
func (s *scan) last(ctx context.Context, after int64) error {
	end, err := s.round(ctx)
	if err != nil {
		return err
	}
	if len(s.slots) != 1 {
		return s.all(ctx, after)
	}
	return s.states(ctx, known, max(end, after), after)
}

// unchanged visits the objects as they were where the history begins.
func (s *scan) unchanged(ctx context.Context, after int64) error {
	if after == 0 {
		return nil
	}
	return s.states(ctx, lived, after, after)
}

// states visits the state at a number. Some of the changes up to after are gone, so an object that changed last by then is
// visited as read, without a cause.
func (s *scan) states(ctx context.Context, which selection, number, after int64) error {
	streams, err := s.reader.streamsOf(ctx, s.Resources)
	if err != nil {
		return err
	}
	return s.reader.lastChanges(ctx, which, list(streams), !s.NoBodies, number, func(record *record, l *sinks.Logged) error {
		switch {
		case record.id > after:
			s.placed(record, l)
		case l.Op == change.Delete:
			return nil
		default:
			l.Op, l.Logged, l.Inferred, l.Gap = change.Read, l.Time, false, ""
		}
		return s.selected(l)
	})
}

// selected visits a change if the query selects it.
func (s *scan) selected(l *sinks.Logged) error {
	if !s.Selects(l) {
		return nil
	}
	return s.visit(l)
}

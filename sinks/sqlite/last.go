package sqlite

import (
	"context"
	"slices"
	"strings"

	"kubecdc/change"
	"kubecdc/sinks"
)

// These select the objects of a stream that live now, or those of them with some keys. The parameter is the stream, or the keys.
const (
	living = `o.gone is null and o.stream = ?3`
	ofKeys = `o.id in (select x.id from json_each(?3 -> 'keys') k cross join log_objects x on x.resource = ?3 ->> 'resource' and
		x.key = k.value and x.gone is null and x.stream = ?3 ->> 'stream')`
)

// lastOf selects the last change of an object o, up to a number.
const lastOf = ` c.id = (select id from log_changes where object = o.id and id <= ?2 order by id desc limit 1) `

// live visits the last change of each of some objects that live.
func (r *Reader) live(ctx context.Context, which string, arg any, bodies bool, visit func(*sinks.Logged) error) error {
	query := columns(imagesIf(bodies, lastImage), noBatch) + byObject + `where o.id > ?1 and ` + which + ` and` + lastOf +
		`order by o.id`
	m := newMaker(r.db)
	for after, more := int64(0), true; more; {
		var records []record
		var err error
		if records, more, err = page(ctx, r.db, query, after, int64(1)<<62, arg); err != nil {
			return err
		}
		for i := range records {
			after = records[i].object
			if change.Op(records[i].op) == change.Delete {
				continue
			}
			l, err := m.alone(ctx, &records[i], bodies)
			if err == nil {
				err = visit(&l)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// maker makes changes of records.
type maker struct {
	names streamNames
	made  *bodies
}

func newMaker(db queries) maker { return maker{streamNames{db: db}, newBodies(db)} }

// alone makes the change of a record that was read with its full body.
func (m *maker) alone(ctx context.Context, r *record, bodies bool) (l sinks.Logged, err error) {
	if l, err = m.bare(ctx, r); err == nil && bodies {
		l.After, err = m.made.after(ctx, r)
	}
	return l, err
}

// bare makes the change of a record without bodies.
func (m *maker) bare(ctx context.Context, r *record) (l sinks.Logged, err error) {
	r.into(&l.Change)
	l.Stream, err = m.names.stream(ctx, r.stream)
	if err == nil && r.op&opStub != 0 {
		var letters []string
		letters, err = column[string](ctx, m.made.db, `select dead_letter from log_stubs where change = ?`, r.id)
		l.DeadLetter = strings.Join(letters, "")
	}
	return l, err
}

// table visits what lives now.
func (s *scan) table(ctx context.Context) error {
	streams, err := s.reader.streamsOf(ctx, s.Resources)
	for _, id := range streams {
		if err == nil {
			err = s.reader.live(ctx, living, id, !s.NoBodies, s.selected)
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
	number := max(end, after)
	return s.inSpans(ctx, livedOrFound, number, func(ids []int64) error { return s.states(ctx, ids, number, after) })
}

// unchanged visits the objects as they were where the history begins.
func (s *scan) unchanged(ctx context.Context, after int64) error {
	if after == 0 {
		return nil
	}
	return s.inSpans(ctx, livedAt, after, func(ids []int64) error { return s.states(ctx, ids, after, after) })
}

// states visits the state of some objects at a number. Some of the changes up to after are gone, so an object that changed last
// by then is visited as read, without a cause.
func (s *scan) states(ctx context.Context, ids []int64, number, after int64) error {
	query := columns(imagesIf(!s.NoBodies, lastImage), itsBatch) + `from json_each(?1) j cross join log_objects o on o.id = j.value
		cross join log_changes c on c.object = o.id ` + joinBatch + `where` + lastOf + `order by j.key`
	for len(ids) > 0 {
		records, more, err := page(ctx, s.reader.db, query, list(ids), number)
		for i := range records {
			if err := s.state(ctx, &records[i], after); err != nil {
				return err
			}
		}
		if err != nil || !more {
			return err
		}
		ids = ids[1+slices.Index(ids, records[len(records)-1].object):]
	}
	return nil
}

// state visits an object as a record has it. It leaves out deletions that were observed as events.
func (s *scan) state(ctx context.Context, r *record, after int64) error {
	if change.Op(r.op) == change.Delete && r.op&opInferred == 0 && !r.gap.Valid {
		return nil
	}
	l, err := s.alone(ctx, r, !s.NoBodies)
	switch {
	case err != nil:
		return err
	case r.id > after:
		s.placed(r, &l)
	case l.Op == change.Delete:
		return nil
	default:
		l.Op, l.Logged, l.Inferred, l.Gap = change.Read, l.Time, false, ""
	}
	return s.selected(&l)
}

// selected visits a change if the query selects it.
func (s *scan) selected(l *sinks.Logged) error {
	if !s.Selects(l) {
		return nil
	}
	return s.visit(l)
}

package sqlite

import (
	"context"
	"slices"
)

// rest reads each name's first change, and reads the other changes only if the first one is wanted.
func (s *scan) rest(ctx context.Context, after int64) error {
	start, err := s.start(ctx, after)
	if err != nil {
		return err
	}
	if _, err := s.round(ctx); err != nil {
		return err
	}
	spans, err := s.spans(ctx)
	for _, interval := range spans {
		if err == nil {
			err = s.restOf(ctx, interval, start)
		}
	}
	return err
}

// restOf reads a span's changes, name by name.
func (s *scan) restOf(ctx context.Context, interval keySpan, number int64) error {
	query := columns(noImages, itsBatch) + byObject + `where o.resource = ?1 and o.key >= ?2 and o.key <= ?3 and (o.gone is null or o.gone > ?4) and
		c.id = (select id from log_changes where object = o.id and id > ?4 order by id limit 1) order by o.key`
	for more := true; more; {
		var all []record
		var err error
		if all, more, err = page(ctx, s.reader.db, query, interval.resource, interval.low, interval.high, number); err != nil {
			return err
		}
		for i, n := 0, 0; i < len(all); i += n {
			key := all[i].key()
			if n = slices.IndexFunc(all[i:], func(r record) bool { return r.key() != key }); n < 0 {
				n = len(all) - i
			}
			if more && i > 0 && i+n == len(all) { // the next page may have more objects of this name
				break
			}
			interval.low = key + "\x00"
			if err := s.restOfName(ctx, all[i:i+n], number); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// restOfName reads the changes of some objects of one name. first has each object's first change.
func (s *scan) restOfName(ctx context.Context, first []record, start int64) error {
	if len(first) == 1 {
		l, inRange, err := s.logged(ctx, &first[0])
		if err != nil || inRange && !s.Selects(&l) {
			return err
		}
	}
	objects := make([]int64, len(first))
	for i := range first {
		objects[i] = first[i].object
	}
	query := columns(imagesIf(!s.NoBodies, bothImages), itsBatch) + byChange + `where c.id in (select id from log_changes
		where object in (select value from json_each(?)) and id > ? order by id limit ?) order by c.id`
	for n := 4; ; n *= 2 {
		all, more, err := page(ctx, s.reader.db, query, list(objects), start, n)
		for i := range all {
			start = all[i].id
			if wanted, err := s.one(ctx, &all[i]); err != nil || !wanted {
				return err
			}
		}
		if err != nil || len(all) < n && !more {
			return err
		}
	}
}

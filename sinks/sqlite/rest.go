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
	resources, err := column[int64](ctx, s.reader.db, `select r.id `+selected, s.reader.cluster, list(s.Resources))
	if err != nil {
		return err
	}
	for _, id := range resources {
		if err := s.restOf(ctx, id, start); err != nil {
			return err
		}
	}
	return nil
}

// restOf reads a resource's changes name by name.
func (s *scan) restOf(ctx context.Context, resource, start int64) error {
	query := columns(noImages, itsBatch) + byObject + `where o.resource = ? and (o.name, o.namespace) > (?, ?) and
		c.id = (select id from log_changes where object = o.id and id > ? order by id limit 1) order by o.name, o.namespace`
	name, namespace := "", "" // the last name that was read
	for more := true; more; {
		var all []record
		var err error
		if all, more, err = page(ctx, s.reader.db, query, resource, name, namespace, start); err != nil {
			return err
		}
		for i, n := 0, 0; i < len(all); i += n {
			name, namespace = all[i].name, all[i].namespace
			if n = slices.IndexFunc(all[i:], func(r record) bool { return r.name != name || r.namespace != namespace }); n < 0 {
				n = len(all) - i
			}
			if more && i > 0 && i+n == len(all) { // the next page may have more objects of this name
				name, namespace = all[i-1].name, all[i-1].namespace
				break
			}
			if err := s.restOfName(ctx, all[i:i+n], start); err != nil {
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

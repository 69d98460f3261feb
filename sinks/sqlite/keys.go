package sqlite

import (
	"context"
	"database/sql"
	"strings"
)

// keySpan is the objects of a resource between two keys of log_objects, both included.
type keySpan struct {
	resource  int64
	low, high string
}

const lastKey = "\xff" // sorts after any text

// storedKey returns a key as log_objects has it: a key without a namespace begins with a slash.
func storedKey(key string) string {
	if !strings.Contains(key, "/") {
		return "/" + key
	}
	return key
}

// spans returns the keys that a query selects, in their order.
func (s *scan) spans(ctx context.Context) (all []keySpan, err error) {
	resources, err := column[int64](ctx, s.reader.db, `select r.id `+selected, s.reader.cluster, list(s.Resources))
	for _, id := range resources {
		interval := keySpan{id, "", lastKey}
		if s.Keys != nil && s.Keys.After != "" {
			interval.low = storedKey(s.Keys.After) + "\x00"
		}
		if s.Keys != nil && s.Keys.UpTo != "" {
			interval.high = storedKey(s.Keys.UpTo)
		}
		switch {
		case s.Name != "":
			err = s.named(ctx, interval, &all)
		case s.Namespace != "":
			all = append(all, interval.within(s.Namespace+"/", s.Namespace+"/"+lastKey))
		default:
			all = append(all, interval)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, err
}

func (k keySpan) within(low, high string) keySpan {
	return keySpan{k.resource, max(k.low, low), min(k.high, high)}
}

// named adds the keys of a name, in one namespace or in all. It finds the namespaces one after another: '0' follows '/'.
func (s *scan) named(ctx context.Context, interval keySpan, all *[]keySpan) error {
	const names = `with recursive n (namespace) as (
			select (select namespace from log_objects where resource = ?1 order by key limit 1)
			union all
			select (select namespace from log_objects where resource = ?1 and key >= n.namespace || '0' order by key limit 1) from n
				where namespace is not null)
		select n.namespace || '/' || ?2 from n where exists (select 1 from log_objects where resource = ?1 and key = n.namespace || '/' || ?2)`
	keys := []string{s.Namespace + "/" + s.Name}
	var err error
	if s.Namespace == "" {
		keys, err = column[string](ctx, s.reader.db, names, interval.resource, s.Name)
	}
	for _, key := range keys {
		if k := interval.within(key, key); k.low <= k.high {
			*all = append(*all, k)
		}
	}
	return err
}

// keysAtOnce is how many objects are found at a time.
const keysAtOnce = 128

// These select objects of a span: the objects that lived after the number ?4, or at it. livedOrFound also selects the objects
// whose deletion was inferred up to that number.
const (
	livesAfter   = `(gone is null or gone > ?4)`
	livedAt      = `id <= ?4 and (gone is null or gone > ?4)`
	livedOrFound = `id <= ?4 and (gone is null or gone > ?4 or id in (select object from log_changes
		where op & 255 = 100 and (op & 256 <> 0 or gap is not null)))`
)

// inSpans visits the objects that the query selects in the order of their keys, some at a time.
func (s *scan) inSpans(ctx context.Context, which string, number int64, visit func(ids []int64) error) error {
	spans, err := s.spans(ctx)
	for _, interval := range spans {
		if err == nil {
			err = s.objects(ctx, interval, which, number, visit)
		}
	}
	return err
}

func (s *scan) objects(ctx context.Context, interval keySpan, which string, number int64, visit func(ids []int64) error) error {
	query := `select id, key from log_objects where resource = ?1 and key >= ?2 and key <= ?3 and ` + which + `
		and (key > ?2 or id > ?5) order by key, id limit ?6`
	for last, more := int64(0), true; more; {
		var ids []int64
		low := interval.low
		err := each(ctx, s.reader.db, query, []any{interval.resource, low, interval.high, number, last, keysAtOnce},
			func(rows *sql.Rows) error {
				err := rows.Scan(&last, &interval.low)
				ids = append(ids, last)
				return err
			})
		if err != nil {
			return err
		}
		if more = len(ids) == keysAtOnce; len(ids) == 0 {
			return nil
		}
		if err := visit(ids); err != nil {
			return err
		}
	}
	return ctx.Err()
}

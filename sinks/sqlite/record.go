package sqlite

import (
	"context"
	"database/sql"
	"strconv"
	"time"

	"kubecdc/change"
	"kubecdc/change/provenance"
	"kubecdc/sinks"
)

// record is a row of log_changes, with its object's names.
type record struct {
	id, object, stream   int64
	resource             int64
	op                   int64
	version              any
	time                 int64
	gap                  sql.NullString
	depth                sql.NullInt64
	body, before         []byte
	namespace, name, uid string
}

// columns are those of a record; without bodies, those are null.
func columns(bodies bool) string {
	images := "c.body, c.before"
	if !bodies {
		images = "null, null"
	}
	return `select c.id, c.object, c.stream, c.op, c.version, c.time, c.gap, c.depth, ` + images + `, o.resource, o.namespace, o.name, o.uid `
}

// The order of a cross join is the one in which SQLite reads.
const (
	byChange = `from log_changes c cross join log_objects o on o.id = c.object `
	byObject = `from log_objects o cross join log_changes c on c.object = o.id `
)

func (r *record) scan(rows *sql.Rows) error {
	return rows.Scan(&r.id, &r.object, &r.stream, &r.op, &r.version, &r.time, &r.gap, &r.depth, &r.body, &r.before,
		&r.resource, &r.namespace, &r.name, &r.uid)
}

// pageBytes is about how much one page holds: no statement stays open for long, nor while a caller works.
const (
	pageBytes   = 2 << 20
	pageRecords = 2000
)

// page reads records until there are enough of them for one page; more says that there may be others.
func page(ctx context.Context, db queries, query string, args ...any) (all []record, more bool, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	for size := 0; rows.Next(); {
		var r record
		if err := r.scan(rows); err != nil {
			return nil, false, err
		}
		all = append(all, r)
		if size += len(r.body) + len(r.before); size > pageBytes || len(all) == pageRecords {
			return all, true, nil
		}
	}
	return all, false, rows.Err()
}

// into sets what a record says of a change, but for its stream and its states.
func (r *record) into(c *change.Change) {
	*c = change.Change{Op: change.Op(r.op), Namespace: r.namespace, Name: r.name, UID: r.uid, ResourceVersion: versionOf(r.version),
		Time: time.UnixMilli(r.time).UTC(), Inferred: r.op&opInferred != 0, Gap: r.gap.String}
}

func versionOf(stored any) change.ResourceVersion {
	switch v := stored.(type) {
	case int64:
		return change.ResourceVersion(strconv.FormatInt(v, 10))
	case string:
		return change.ResourceVersion(v)
	}
	return ""
}

// bodies makes the bodies of records that come in their order. It holds the last body of the objects that it has met.
type bodies struct {
	db     queries
	codecs map[int64]codec
	held   map[int64][]byte
	size   int
	who    provenance.Reader
}

const heldBytes = 16 << 20

func newBodies(db queries) *bodies {
	return &bodies{db: db, codecs: map[int64]codec{}, held: map[int64][]byte{}}
}

// skip forgets an object of which a record is not read.
func (b *bodies) skip(r *record) {
	b.size -= len(b.held[r.object])
	delete(b.held, r.object)
}

func (b *bodies) hold(object int64, body []byte) {
	if b.size += len(body) - len(b.held[object]); b.size > heldBytes {
		clear(b.held)
		b.size = len(body)
	}
	b.held[object] = body
}

// set sets both states of a change, and who made it.
func (b *bodies) set(ctx context.Context, r *record, l *sinks.Logged) (err error) {
	follows := r.op&opFromBefore != 0
	whole, err := b.codec(ctx, r.resource)
	if err != nil {
		return err
	}
	var last []byte
	if follows || r.depth.Int64 > 0 {
		if last = b.held[r.object]; last == nil {
			last, err = bodyAt(ctx, b.db, whole, r.object, r.id-1)
		}
	}
	if err == nil && follows {
		l.Before = last
	} else if err == nil && r.before != nil {
		l.Before, err = whole.unpack(r.before)
	}
	if err == nil && r.depth.Valid {
		l.After, err = whole.apply(last, r.depth.Int64, r.body)
	}
	if err != nil {
		return err
	}
	if l.After == nil {
		b.skip(r)
	} else {
		b.hold(r.object, l.After)
	}
	b.who.Reset()
	b.who.Read(&l.Change)
	return nil
}

// after makes the state after a record alone: what came before it may be gone.
func (b *bodies) after(ctx context.Context, r *record) ([]byte, error) {
	whole, err := b.codec(ctx, r.resource)
	if err != nil || !r.depth.Valid {
		return nil, err
	}
	if r.depth.Int64 == 0 {
		return whole.unpack(r.body)
	}
	return bodyAt(ctx, b.db, whole, r.object, r.id)
}

// codec returns the codec of a resource. While a resource has no dictionary, another process may make one.
func (b *bodies) codec(ctx context.Context, resource int64) (codec, error) {
	if c, known := b.codecs[resource]; known {
		return c, nil
	}
	err := each(ctx, b.db, `select dictionary from log_dictionaries where resource = ?`, []any{resource}, func(rows *sql.Rows) error {
		var dictionary []byte
		err := rows.Scan(&dictionary)
		b.codecs[resource] = codecOf(dictionary)
		return err
	})
	return b.codecs[resource], err
}

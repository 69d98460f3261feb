package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"kubecdc/change"
	"kubecdc/change/provenance"
	"kubecdc/sinks"
)

// record is a row of log_changes, with its object's names, and with its batch. The batch is zero if it is gone or was not asked
// for.
type record struct {
	id, object, stream   int64
	resource             int64
	op                   int64
	version              any
	time                 int64
	gap                  sql.NullString
	back                 sql.NullInt64
	body, before, full   []byte // full is the column of the change that is back ids before
	namespace, name, uid string
	slot, epoch, written int64 // slot is the id of a row of log_slots
	batch                uint64
}

// columns returns the columns of a record. Without bodies, images are null.
func columns(images, batch string) string {
	return `select c.id, c.object, c.stream, c.op, c.version, c.time, c.gap, c.back, ` + images + `, o.resource, o.namespace, o.name, o.uid,
		` + batch + ` `
}

const (
	noImages   = `null, null, null`
	bothImages = `c.body, c.before, null`
	lastImage  = `c.body, null, (select body from log_changes where c.back > 0 and id = c.id - c.back)`

	noBatch  = `0, 0, 0, 0` // makes SQLite leave out the join
	itsBatch = `coalesce(b.slot, 0), coalesce(b.epoch, 0), coalesce(b.written, 0), coalesce(b.seq, 0)`
)

// imagesIf returns the columns of the bodies, if bodies are read.
func imagesIf(bodies bool, images string) string {
	if bodies {
		return images
	}
	return noImages
}

// SQLite reads tables in the order of the cross joins.
const (
	byChange = `from log_changes c cross join log_objects o on o.id = c.object ` + joinBatch
	byObject = `from log_objects o cross join log_changes c on c.object = o.id ` + joinBatch

	joinBatch = `left join log_batches b on b.id = (select id from log_batches where id < c.id order by id desc limit 1) `
)

func (r *record) scan(rows *sql.Rows) error {
	return rows.Scan(&r.id, &r.object, &r.stream, &r.op, &r.version, &r.time, &r.gap, &r.back, &r.body, &r.before, &r.full,
		&r.resource, &r.namespace, &r.name, &r.uid, &r.slot, &r.epoch, &r.written, &r.batch)
}

func (r *record) key() string { return r.namespace + "/" + r.name }

// pageBytes limits the size of one page. So no statement is open for long, or while a caller works.
const (
	pageBytes   = 2 << 20
	pageRecords = 2000
)

// page reads records until there are enough of them for one page. more says that there may be others.
func page(ctx context.Context, db queries, query string, args ...any) (all []record, more bool, err error) {
	return pageOf(ctx, db, pageBytes, query, args...)
}

func pageOf(ctx context.Context, db queries, most int, query string, args ...any) (all []record, more bool, err error) {
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
		if size += len(r.body) + len(r.before) + len(r.full); size > most || len(all) == pageRecords {
			return all, true, nil
		}
	}
	return all, false, rows.Err()
}

// into fills a change from a record, except its stream and its states.
func (r *record) into(c *change.Change) {
	*c = change.Change{Op: change.Op(r.op), Namespace: r.namespace, Name: r.name, UID: r.uid,
		ResourceVersion: versionOf(r.version),
		Time:            time.UnixMilli(r.time).Add(time.Duration(r.op >> nanosShift)).UTC(), Inferred: r.op&opInferred != 0,
		Gap: r.gap.String}
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

// bodies restores the bodies of records, which must come in their order. It remembers each object's last body.
type bodies struct {
	db     queries
	codecs map[int64]codec
	held   map[int64]held
	size   int
	most   int // maximum size
	who    provenance.Reader
}

// held is what an object's next body is a delta of.
type held struct{ full, last []byte }

// heldBytes is how much a reader remembers. A follower remembers followerBytes, and reads so many at once, since there may be
// hundreds.
const (
	heldBytes     = 32 << 20
	followerBytes = 64 << 10
)

func newBodies(db queries) *bodies {
	return &bodies{db: db, codecs: map[int64]codec{}, held: map[int64]held{}, most: heldBytes}
}

// skip forgets an object, because a record of it is not read.
func (b *bodies) skip(r *record) {
	h := b.held[r.object]
	b.size -= len(h.full) + len(h.last)
	delete(b.held, r.object)
}

func (b *bodies) hold(r *record, h held) {
	b.skip(r)
	if b.size += len(h.full) + len(h.last); b.size > b.most {
		clear(b.held)
		if b.size = len(h.full) + len(h.last); b.size > b.most {
			b.size = 0
			return
		}
	}
	b.held[r.object] = h
}

// before restores an object's body before a record.
func (b *bodies) before(ctx context.Context, r *record, coder codec) (h held, err error) {
	if h, known := b.held[r.object]; known {
		return h, nil
	}
	const query = `select c.id, c.back, c.body, w.body from log_changes c left join log_changes w on c.back > 0 and w.id = c.id - c.back
		where c.object = ? and c.id < ? order by c.id desc limit 1`
	var s stored
	err = each(ctx, b.db, query, []any{r.object, r.id}, func(rows *sql.Rows) error {
		var id int64
		var back sql.NullInt64
		var body, full []byte
		err := rows.Scan(&id, &back, &body, &full)
		s = storedOf(id, back, body, full)
		return err
	})
	if err == nil && s.base == 0 {
		err = fmt.Errorf("%w: object %d has nothing that its body at %d is made of", ErrDamaged, r.object, r.id)
	}
	if err == nil {
		h.full, h.last, err = coder.bodies(s, ownMemory)
	}
	return h, err
}

// set sets both states of a change, and who made it.
func (b *bodies) set(ctx context.Context, r *record, l *sinks.Logged) (err error) {
	follows := r.op&opFromBefore != 0
	coder, err := b.codec(ctx, r.resource)
	if err != nil {
		return err
	}
	var h held
	if follows {
		h, err = b.before(ctx, r, coder)
		l.Before = h.last
	} else if r.before != nil {
		l.Before, err = coder.unpack(nil, r.before)
	}
	switch {
	case err != nil || !r.back.Valid:
	case r.back.Int64 == 0:
		l.After, err = coder.unpack(nil, r.body)
		h.full = l.After
	default:
		l.After, err = applied(nil, h.full, r.body)
	}
	if err != nil {
		return err
	}
	if h.last = l.After; h.last == nil {
		b.skip(r)
	} else {
		b.hold(r, h)
	}
	b.who.Reset()
	b.who.Read(&l.Change)
	return nil
}

// after restores the state after a single record, which was read with its full body, since earlier records may be gone.
func (b *bodies) after(ctx context.Context, r *record) ([]byte, error) {
	coder, err := b.codec(ctx, r.resource)
	if err != nil {
		return nil, err
	}
	_, body, err := coder.bodies(storedOf(r.id, r.back, r.body, r.full), ownMemory)
	return body, err
}

// codec returns the codec of a resource. As long as a resource has no dictionary, another process may make one.
func (b *bodies) codec(ctx context.Context, resource int64) (codec, error) {
	if c, known := b.codecs[resource]; known {
		return c, nil
	}
	err := each(ctx, b.db, `select dictionary from log_dictionaries where resource = ?`, []any{resource},
		func(rows *sql.Rows) error {
			var dictionary []byte
			err := rows.Scan(&dictionary)
			b.codecs[resource] = codecOf(dictionary)
			return err
		})
	return b.codecs[resource], err
}

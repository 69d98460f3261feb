package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
)

// Memory returns the log's state of a cluster: each stream's position, and the living objects. Each batch changes it.
type Memory struct{ reader *Reader }

// NewMemory reads a file. The caller closes the file after Close.
func NewMemory(ctx context.Context, file *sqlitefile.File, cluster string) (*Memory, error) {
	if err := migrate(ctx, file); err != nil {
		return nil, err
	}
	return &Memory{newReader(file, cluster)}, nil
}

// Holds reports whether a file has the log of a cluster.
func Holds(ctx context.Context, file *sqlitefile.File, cluster string) (bool, error) {
	tables, err := column[int](ctx, file.DB(), `select 1 from sqlite_schema where name = 'log_clusters'`)
	if err == nil && tables != nil {
		tables, err = column[int](ctx, file.DB(), `select 1 from log_clusters where cluster = ?`, cluster)
	}
	return tables != nil, file.Fail("find out whether the log is there", err)
}

// Close does not close the file.
func (m *Memory) Close() { m.reader.db.close() }

// ofCluster joins the streams of a cluster, ?1.
const ofCluster = ` log_clusters k join log_resources r on r.cluster = k.id and k.cluster = ?1 join log_streams s on s.resource = r.id `

// Positions implements sinks.Memory.
func (m *Memory) Positions(ctx context.Context) (all []change.Position, err error) {
	const query = `select s.stream, p.version, p.time, p.ended from` + ofCluster + `join log_positions p on p.stream = s.id and not p.forgotten
		order by s.stream`
	all, err = m.positions(ctx, query, m.reader.cluster)
	return all, m.reader.fail("read the positions", err)
}

// Position implements sinks.Memory.
func (m *Memory) Position(ctx context.Context, stream change.StreamID) (p change.Position, known bool, err error) {
	const query = `select s.stream, coalesce(p.version, ?3), coalesce(p.time, ?4), coalesce(p.ended, '') from` + ofCluster + `
		left join log_positions p on p.stream = s.id where s.stream = ?2
		and (p.stream is not null or exists (select 1 from log_objects where stream = s.id and gone is null))`
	all, err := m.positions(ctx, query, m.reader.cluster, string(stream), string(change.UnknownVersion), time.Now().UnixMilli())
	if err != nil || len(all) == 0 {
		return p, false, m.reader.fail("read the position of "+string(stream), err)
	}
	return all[0], true, nil
}

func (m *Memory) positions(ctx context.Context, query string, args ...any) (all []change.Position, err error) {
	err = each(ctx, m.reader.db, query, args, func(rows *sql.Rows) error {
		var p change.Position
		var ms int64
		err := rows.Scan(&p.Stream, &p.ResourceVersion, &ms, &p.Ended)
		p.Time = time.UnixMilli(ms).UTC()
		all = append(all, p)
		return err
	})
	return all, err
}

// Streams are all that the log has something of.
func (m *Memory) Streams(ctx context.Context) ([]change.StreamID, error) {
	all, err := column[change.StreamID](ctx, m.reader.db, `select s.stream from`+ofCluster, m.reader.cluster)
	return all, m.reader.fail("read which streams it has", err)
}

// knownAtOnce is how many objects are held at a time, about 150 bytes each.
const knownAtOnce = 5000

// Objects implements sinks.Memory. It reads page by page, and has no statement open while it visits.
func (m *Memory) Objects(
	ctx context.Context, stream change.StreamID, visit func(key, uid string, version change.ResourceVersion) error,
) error {
	const query = `select o.id, o.namespace, o.name, o.uid,
			coalesce(o.unwritten, (select version from log_changes where object = o.id order by id desc limit 1))
		from log_objects o where o.stream = ? and o.gone is null and o.id > ? order by o.id limit ?`
	type object struct {
		namespace, name, uid string
		version              any
	}
	ids, err := column[int64](ctx, m.reader.db, `select s.id from`+ofCluster+`where s.stream = ?2`, m.reader.cluster,
		string(stream))
	for _, id := range ids {
		for after, page := int64(0), make([]object, 0, 100); err == nil; page = page[:0] {
			err = each(ctx, m.reader.db, query, []any{id, after, knownAtOnce}, func(rows *sql.Rows) error {
				var o object
				err := rows.Scan(&after, &o.namespace, &o.name, &o.uid, &o.version)
				page = append(page, o)
				return err
			})
			if err != nil {
				break
			}
			for i := range page {
				o := &page[i]
				if err := visit(change.ObjectKey(o.namespace, o.name), o.uid, versionOf(o.version)); err != nil {
					return err
				}
			}
			if len(page) < knownAtOnce {
				break
			}
		}
	}
	return m.reader.fail("read what lives of "+string(stream), err)
}

// Forget removes a stream that has ended from Positions, and reports whether it was there. If the stream is selected again, it
// continues.
func (m *Memory) Forget(ctx context.Context, stream change.StreamID) (ended bool, err error) {
	const forget = `update log_positions set forgotten = true where ended <> '' and not forgotten and stream in (select s.id from` + ofCluster + `where s.stream = ?2)`
	result, err := m.reader.file.DB().ExecContext(ctx, forget, m.reader.cluster, string(stream))
	if err != nil {
		return false, m.reader.fail("forget "+string(stream), err)
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// LastControls returns the last gap and the last proof of each stream.
func (m *Memory) LastControls(ctx context.Context) (all []change.Control, err error) {
	const query = `select c.record from` + ofCluster + `join log_last_controls c on c.stream = s.id order by s.stream, c.type`
	err = each(ctx, m.reader.db, query, []any{m.reader.cluster}, func(rows *sql.Rows) error {
		var text []byte
		if err := rows.Scan(&text); err != nil {
			return err
		}
		all = append(all, change.Control{})
		return json.Unmarshal(text, &all[len(all)-1])
	})
	return all, m.reader.fail("read the last control records", err)
}

// LastBatches returns each slot's last batch, by the slot's number.
func (m *Memory) LastBatches(ctx context.Context) (map[int]Batch, error) {
	all := map[int]Batch{}
	numbers, _, err := m.reader.slots(ctx)
	for id, slot := range numbers {
		var last []batch
		if err == nil {
			last, err = m.reader.lastBefore(ctx, id, 1<<62)
		}
		if len(last) > 0 {
			all[slot] = Batch{Epoch: last[0].epoch, Seq: last[0].seq, Written: time.UnixMilli(last[0].written).UTC()}
		}
	}
	return all, m.reader.fail("read how far the slots are", err)
}

// Batch is a batch with the positions that it set.
type Batch struct {
	Epoch     int64
	Seq       uint64
	Written   time.Time
	Positions []change.Position
}

// Batches returns a slot's newest batches, at most limit of them, the newest first. They are limited to a range of time, whose
// ends may be zero. If seq is not 0, it returns only that batch.
func (m *Memory) Batches(ctx context.Context, slot int, since, until time.Time, seq uint64, limit int) (all []Batch, err error) {
	fail := func(err error) error { return m.reader.fail(fmt.Sprintf("read the batches of slot %d", slot), err) }
	id, err := m.slot(ctx, slot)
	if err != nil || id == 0 {
		return nil, fail(err)
	}
	from, end := int64(0), int64(1)<<62
	if !since.IsZero() {
		if from, err = m.reader.firstAfter(ctx, since.UnixMilli()-1); err != nil {
			return nil, fail(err)
		}
	}
	if !until.IsZero() {
		if end, err = m.reader.firstAfter(ctx, until.UnixMilli()); err != nil {
			return nil, fail(err)
		}
	}
	if seq > 0 {
		last, err := m.reader.lastUpTo(ctx, id, seq)
		if err != nil || len(last) == 0 || last[0].seq != seq || last[0].id < from || last[0].id >= end {
			return nil, fail(err)
		}
		from, end = last[0].id, last[0].id+1
	}
	names := streamNames{db: m.reader.db}
	for len(all) < limit {
		page, err := batches(ctx, m.reader.db, `where slot = ? and id >= ? and id < ? order by id desc limit ?`, id, from, end,
			min(limit-len(all), controlsAtOnce))
		if err != nil || len(page) == 0 {
			return all, fail(err)
		}
		for i := range page {
			b := &page[i]
			end = b.id
			positions, _, err := names.positions(ctx, b)
			if err != nil {
				return nil, fail(err)
			}
			all = append(all, Batch{b.epoch, b.seq, time.UnixMilli(b.written).UTC(), positions})
		}
	}
	return all, nil
}

// slot returns the id of a slot's row, or 0 if there is none.
func (m *Memory) slot(ctx context.Context, slot int) (int64, error) {
	numbers, _, err := m.reader.slots(ctx)
	for id, number := range numbers {
		if number == slot {
			return id, err
		}
	}
	return 0, err
}

// PositionsAt returns the positions of a slot's streams after a batch, as far as the history goes back.
func (m *Memory) PositionsAt(ctx context.Context, slot int, seq uint64) ([]change.Position, error) {
	last, done := map[change.StreamID]change.Position{}, errors.New("the batch was read")
	err := m.reader.Controls(ctx, time.Time{}, func(s *sinks.Span) bool { return s.Slot == slot && s.Batch > seq },
		func(c *change.Control) error {
			switch {
			case c.Type != change.ControlBatch || c.Slot != slot:
			case c.Batch > seq:
				return done
			default:
				for _, p := range c.Positions {
					last[p.Stream] = p
				}
			}
			return nil
		})
	if errors.Is(err, done) {
		err = nil
	}
	return slices.Collect(maps.Values(last)), err
}

var _ sinks.Memory = (*slotLog)(nil)

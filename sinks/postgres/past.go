package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Past reads the positions from the batches, and the objects from the table of that name.
func (l *slotLog) Past(ctx context.Context, wanted sinks.Wanted) (*sinks.Past, error) {
	f := &folder{log: l, wanted: wanted}
	p := &sinks.Past{Seq: l.at.seq, Epoch: l.epoch - 1, Fold: f.fold}
	positions, err := l.standings(ctx)
	if err == nil {
		err = f.find(ctx, p)
	}
	if err != nil {
		return nil, l.sink.db.Fail(fmt.Sprintf("find out what the log has of slot %d's streams", l.slot), err)
	}
	for _, at := range positions {
		if wanted.Stream(at.Stream) {
			p.Positions = append(p.Positions, at)
		}
	}
	return p, nil
}

// moves are what moved each stream's position, since when: a batch; or the start of its first list, or that it is to be
// written anew, from which on it is empty. The clock is this server's, one for all slots.
const moves = `select b.cluster, p.stream, p."resourceVersion" as version, p.time as moved, coalesce(p.ended, '') as ended,
		b.written as since, b.written, 1 as rank
	from kubecdc_log.batches b, json_to_recordset(b.positions) as p (stream text, "resourceVersion" text, time timestamptz, ended text)
union all
	select cluster, stream, '', time, '', case type when '` + change.ControlSnapshotBegin + `' then '-infinity' else written end, written, 0
	from kubecdc_log.control where type = '` + change.ControlSnapshotBegin + `'
		or type = '` + change.ControlGap + `' and record->'gap'->>'from' = '` + string(change.UnknownVersion) + `'`

// newest: a stream's last position, whichever slot it was in, and whether its batch was dropped or not.
const newest = `select distinct on (stream) stream, version, moved, ended from (` + moves + `
union all
	select cluster, stream, version, moved, ended, written, written, 1 from kubecdc_log.positions
) as m where cluster = $1 order by stream, since desc, rank desc`

func (l *slotLog) standings(ctx context.Context) ([]change.Position, error) {
	rows, err := l.sink.db.Query(ctx, newest, l.sink.cluster)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p change.Position, err error) {
		var moved time.Time
		err = row.Scan(&p.Stream, &p.ResourceVersion, &moved, &p.Ended)
		p.Time = moved.UTC()
		return p, err
	})
}

// folder reads the table objects, which is folded already.
type folder struct {
	log     *slotLog
	wanted  sinks.Wanted
	streams []change.StreamID
}

func (f *folder) find(ctx context.Context, p *sinks.Past) error {
	const look = `select stream, count(*) from kubecdc_log.objects where cluster = $1 group by stream`
	rows, err := f.log.sink.db.Query(ctx, look, f.log.sink.cluster)
	if err != nil {
		return err
	}
	var stream change.StreamID
	var count int64
	_, err = pgx.ForEachRow(rows, []any{&stream, &count}, func() error {
		if f.wanted.Stream(stream) {
			f.streams = append(f.streams, stream)
			p.Records += count
		}
		return nil
	})
	return err
}

// fold visits the rows as they come off the wire.
func (f *folder) fold(ctx context.Context, visit func(*change.Change) error, progress func(sinks.Folded)) (folded sinks.Folded, err error) {
	const look = `select stream, namespace, name, uid, resource_version, case when $3 then body end
		from kubecdc_log.objects where cluster = $1 and stream = any ($2)`
	rows, err := f.log.sink.db.Query(ctx, look, f.log.sink.cluster, f.streams, f.wanted.Bodies)
	if err != nil {
		return folded, f.log.sink.db.Fail("read the objects", err)
	}
	var stream change.StreamID
	c := change.Change{Op: change.Create}
	into := []any{&stream, &c.Namespace, &c.Name, &c.UID, &c.ResourceVersion, (*body)(&c.After)}
	_, err = pgx.ForEachRow(rows, into, func() error {
		if c.Stream == nil || c.Stream.ID() != stream {
			c.Stream = change.StreamFromID(stream)
		}
		folded.Records++
		folded.Bytes += int64(len(c.After))
		progress(folded)
		return visit(&c)
	})
	return folded, err
}

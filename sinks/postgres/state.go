package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"kubecdc/change"
	"kubecdc/internal/pgdb"
	"kubecdc/sinks"
)

// State reads the positions from the batches, and the objects from the table of that name.
func (l *slotLog) State(ctx context.Context, wanted sinks.Selection) (*sinks.State, error) {
	fail := func(err error) error {
		return l.sink.db.Fail(fmt.Sprintf("find out what the log has of slot %d's streams", l.slot), err)
	}
	p := &sinks.State{Seq: l.opened.seq, Epoch: l.epoch - 1}
	positions, err := l.newestPositions(ctx)
	if err != nil {
		return nil, fail(err)
	}
	p.Positions = slices.DeleteFunc(positions, func(position change.Position) bool { return !wanted.Stream(position.Stream) })
	streams, err := l.findStreams(ctx, wanted, p)
	if err != nil {
		return nil, fail(err)
	}
	p.Fold = func(ctx context.Context, visit func(*change.Change) error, progress func(sinks.Progress)) (done sinks.Progress,
		err error) {
		s := l.reader.scan(sinks.Query{NoBodies: !wanted.Bodies}, func(c *sinks.Logged) error {
			done.Records++
			done.Bytes += int64(len(c.After))
			progress(done)
			return visit(&c.Change)
		})
		err = s.objects(ctx, ` and c.stream = any ($2)`, streams)
		return done, err
	}
	removed, err := l.reader.removed(ctx, l.slot)
	if err != nil {
		return nil, fail(err)
	}
	lost, err := l.lastLosses(ctx, wanted)
	p.Lost = removed.Loss().Join(sinks.LostBeforeSpool(lost))
	return p, fail(err)
}

// isLoss selects the gap records that say that the log has lost records.
const isLoss = `type = '` + string(change.ControlGap) + `' and record->'gap'->>'from' = '` + string(change.UnknownVersion) + `'`

// lastLosses returns the last gap of each wanted stream that says that the log has lost records.
func (l *slotLog) lastLosses(ctx context.Context, wanted sinks.Selection) (map[change.StreamID]*change.Gap, error) {
	const query = `select distinct on (stream) stream, record->'gap' from kubecdc_log.control
		where cluster = $1 and ` + isLoss + ` order by stream, written desc, epoch desc, batch desc`
	lost := map[change.StreamID]*change.Gap{}
	var stream change.StreamID
	var text []byte
	err := pgdb.Querier{DB: l.sink.db}.Rows(ctx, query, []any{l.sink.cluster}, []any{&stream, &text}, func() error {
		if !wanted.Stream(stream) {
			return nil
		}
		lost[stream] = new(change.Gap)
		return json.Unmarshal(text, lost[stream])
	})
	return lost, err
}

// Has reads the table objects.
func (l *slotLog) Has(ctx context.Context, s *change.Stream) (has bool, err error) {
	const query = `select exists (select from kubecdc_log.objects where cluster = $1 and stream = $2)`
	err = pgdb.Querier{DB: l.sink.db}.Row(ctx, query, []any{l.sink.cluster, string(s.ID())}, &has)
	return has, l.sink.db.Fail("find out whether the log has objects of "+string(s.ID()), err)
}

// moves selects what set a stream's position, and when: a batch, the start of the stream's first list, or a gap record which says
// that the log has lost the stream. The last two make the position empty.
const moves = `select b.cluster, p.stream, p."resourceVersion" as version, p.time as moved, coalesce(p.ended, '') as ended,
		b.written as since, b.epoch, b.seq, b.written, 1 as rank
	from kubecdc_log.batches b, json_to_recordset(b.positions)
		as p (stream text, "resourceVersion" text, time timestamptz, ended text)
union all
	select cluster, stream, '', time, '', case type when '` + string(change.ControlSnapshotBegin) + `'
		then '-infinity' else written end, epoch, batch, written, 0
	from kubecdc_log.control where type = '` + string(change.ControlSnapshotBegin) + `'
		or ` + isLoss

// latestFirst is the order of moves. since is the order of the log, and several batches of one slot may have the same.
const latestFirst = ` since desc, epoch desc, seq desc, rank desc`

// newest selects the last position of each stream, in whatever slot the stream was, and whether or not its batch was dropped.
const newest = `select distinct on (stream) stream, version, moved, ended from (` + moves + `
union all
	select cluster, stream, version, moved, ended, written, 0, 0, written, 1 from kubecdc_log.positions
) as m where cluster = $1 order by stream,` + latestFirst

func (l *slotLog) newestPositions(ctx context.Context) (all []change.Position, err error) {
	var p change.Position
	err = pgdb.Querier{DB: l.sink.db}.Rows(ctx, newest, []any{l.sink.cluster},
		[]any{&p.Stream, &p.ResourceVersion, &p.Time, &p.Ended},
		func() error {
			all = append(all, p)
			return nil
		})
	return all, err
}

// findStreams finds the wanted streams that have objects, and counts the objects.
func (l *slotLog) findStreams(ctx context.Context, wanted sinks.Selection, p *sinks.State) (streams []change.StreamID,
	err error) {
	const query = `select stream, count(*) from kubecdc_log.objects where cluster = $1 group by stream`
	var stream change.StreamID
	var count int64
	err = pgdb.Querier{DB: l.sink.db}.Rows(ctx, query, []any{l.sink.cluster}, []any{&stream, &count}, func() error {
		if wanted.Stream(stream) {
			streams = append(streams, stream)
			p.Records += count
		}
		return nil
	})
	return streams, err
}

package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"kubecdc/change"
	"kubecdc/internal/pgdb"
	"kubecdc/sinks"
)

const writeBatch = `select kubecdc_log.write_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
	$19, $20, $21, $22, $23, $24, $25, $26)`

// writeBatchAndLetters does the same for a batch in which there is something malformed.
const writeBatchAndLetters = `with written as (
	` + writeBatch + ` as answer
), letters as (
	insert into kubecdc_log.dead_letters (cluster, slot, epoch, batch, n, time, stream, reason, body)
		select $1, $2, $3, $4, n, clock_timestamp(), stream, reason, body
		from unnest($27::text[], $28::text[], $29::bytea[]) with ordinality as l (stream, reason, body, n)
		where (select answer from written) = 'ok'
)
select answer from written`

// slotLog writes one slot's batches. Its parameters are used again for each batch.
type slotLog struct {
	sink    *Sink
	slot    int
	epoch   int64
	restart bool // the tail was lost: the first batch starts numbers over
	at      tail // where it stood when this owner came
	params  writeParams
	end     context.CancelFunc // of what keeps its tables up
}

// begin starts to keep the log's tables up.
func (l *slotLog) begin() {
	ctx, end := context.WithCancel(l.sink.open)
	l.end = end
	go l.keepUp(ctx)
}

// Write sends the whole batch in one statement and one round trip: see write_batch in the migrations.
// It has no offsets to tell.
func (l *slotLog) Write(ctx context.Context, b *change.Batch) (change.Offsets, error) {
	op := fmt.Sprintf("write batch %d of slot %d", b.Seq, l.slot)
	if err := l.params.fill(l, b); err != nil {
		return nil, l.sink.db.Fail(op, err)
	}
	answer, err := l.call(ctx, len(b.Malformed) > 0)
	switch {
	case err != nil:
		return nil, l.sink.db.Fail(op, err)
	case answer == "fenced":
		return nil, sinks.ErrInvalidWriter
	case answer != "ok":
		return nil, l.sink.db.Fail(op, fmt.Errorf("the log has this batch, or a later one, already"))
	}
	l.restart = false
	return nil, nil
}

func (l *slotLog) call(ctx context.Context, letters bool) (answer string, err error) {
	if letters {
		return l.sink.db.Call(ctx, writeBatchAndLetters, l.params.letters.appendTo(l.params.values()), letterTypes)
	}
	return l.sink.db.Call(ctx, writeBatch, l.params.values(), writeTypes)
}

// Close ends what keeps the tables up; between batches the log holds nothing.
func (l *slotLog) Close() error {
	l.end()
	return nil
}

// writeParams are the parameters of writeBatch, as they go over the wire.
type writeParams struct {
	cluster, slot, epoch, seq, restart, positions []byte
	changes                                       changeColumns
	controls                                      controlColumns
	letters                                       letterColumns
	last                                          map[place]int // the last change of each object in the batch
}

// place is where an object stands in the table objects.
type place struct {
	resource        change.Resource
	namespace, name string
}

func (p *writeParams) fill(l *slotLog, b *change.Batch) (err error) {
	p.cluster = append(p.cluster[:0], l.sink.cluster...)
	p.slot = pgdb.AppendInt32(p.slot[:0], int32(l.slot))
	p.epoch = pgdb.AppendInt64(p.epoch[:0], l.epoch)
	p.seq = pgdb.AppendInt64(p.seq[:0], int64(b.Seq))
	p.restart = []byte{0}
	if l.restart {
		p.restart[0] = 1
	}
	if p.positions, err = json.Marshal(append([]change.Position{}, b.Positions...)); err != nil {
		return err
	}
	p.findLast(b.Changes)
	p.changes.fill(b.Changes, p.last)
	p.letters.fill(b.Malformed)
	return p.controls.fill(b.Controls, l.sink.uid)
}

func (p *writeParams) findLast(changes []change.Change) {
	if p.last == nil {
		p.last = map[place]int{}
	}
	clear(p.last)
	for i := range changes {
		p.last[placeOf(&changes[i])] = i
	}
}

func placeOf(c *change.Change) place {
	r := c.Stream.Resource
	return place{change.Resource{Group: r.Group, Plural: r.Plural}, c.Namespace, c.Name}
}

func (p *writeParams) values() [][]byte {
	v := [][]byte{p.cluster, p.slot, p.epoch, p.seq, p.restart, p.positions}
	return p.controls.appendTo(p.changes.appendTo(v))
}

// writeTypes are the types of writeBatch's parameters.
var writeTypes = append(append([]uint32{
	pgtype.TextOID, pgtype.Int4OID, pgtype.Int8OID, pgtype.Int8OID, pgtype.BoolOID, pgtype.JSONOID,
}, changeTypes...), controlTypes...)

// letterTypes are the types of writeBatchAndLetters' parameters.
var letterTypes = append(append([]uint32{}, writeTypes...), letterColumnTypes...)

package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"kubecdc/change"
	"kubecdc/internal/pgdb"
	"kubecdc/sinks"
)

// slotLog writes one slot's batches.
type slotLog struct {
	sink    *Sink
	reader  *Reader
	slot    int
	epoch   int64
	restart bool // the tail was lost: the first batch follows the checkpoint's and not the log's
	opened  tail // the end of the slot's log when this owner opened it
	rows    *batchRows
	counted storedBatch        // the last batch whose changes were counted, or zero to start with the first one
	end     context.CancelFunc // ends maintain
}

func (l *slotLog) startMaintenance() {
	ctx, end := context.WithCancel(l.sink.open)
	l.end = end
	go l.maintain(ctx)
}

var errStale = fmt.Errorf("%w: the log's last batch is not the one before: it has this batch already, or has lost that one, as "+
	"after a "+
	"failover to a standby that was behind; the next session finds out which", sinks.ErrInvalidWriter)

// Write sends the full batch in one statement and one round trip: see write_batch in the migrations. It returns no offsets, since
// the tables have none.
func (l *slotLog) Write(ctx context.Context, b *change.Batch) (change.Offsets, error) {
	answer, err := l.write(ctx, b)
	switch {
	case err == nil && answer == "fenced":
		return nil, sinks.ErrInvalidWriter
	case err == nil && answer != "ok":
		err = errStale
	}
	if err != nil {
		return nil, l.sink.db.Fail(fmt.Sprintf("write batch %d of slot %d", b.Seq, l.slot), err)
	}
	l.restart = false
	return nil, l.prove(ctx, b)
}

func (l *slotLog) write(ctx context.Context, b *change.Batch) (answer string, err error) {
	positions, err := json.Marshal(append([]change.Position{}, b.Positions...)) // an array, even if it is empty
	if err != nil {
		return "", err
	}
	if err := l.rows.fill(b, l.sink.uid); err != nil {
		return "", err
	}
	params := l.rows.appendParams([]pgdb.Param{
		pgdb.Text("in_cluster", l.sink.cluster), pgdb.Int4("in_slot", int32(l.slot)), pgdb.Int8("in_epoch", l.epoch),
		pgdb.Int8("in_seq", int64(b.Seq)), pgdb.Bool("in_restart", l.restart), pgdb.JSON("in_positions", positions),
	})
	return l.sink.db.Call(ctx, "kubecdc_log.write_batch",
		append(params, pgdb.Text("kubecdc.sum", strconv.FormatInt(sumOf(params), 10)))...)
}

// Close ends the maintenance of the tables. Between batches, the log has nothing else to close.
func (l *slotLog) Close() error {
	l.end()
	return nil
}

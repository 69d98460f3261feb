package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/sinks"
)

// maxRecovered bounds the changes held in memory by a recovery. There is one batch to recover, or none, unless the
// checkpoint was restored from a backup.
const maxRecovered = 200_000

// recover reads the batches after the checkpoint. reason says why they are not all there, if so; those before the
// first one that is missing are given all the same.
func (s *Sink) recover(ctx context.Context, at tail, from sinks.Durable) (_ []sinks.Recovered, reason string, err error) {
	if at.seq < from.Seq {
		return nil, fmt.Sprintf("it ends at batch %d, but the checkpoint is at batch %d: were its tables emptied, or "+
			"restored from a backup?", at.seq, from.Seq), nil
	}
	if at.seq == from.Seq {
		return nil, "", nil
	}
	batches, err := s.batchesAfter(ctx, at, from.Seq)
	if err != nil {
		return nil, "", err
	}
	whole, reason := readable(batches, from.Seq, at.seq)
	recovered, err := s.changesOf(ctx, at, from.Seq, whole)
	if err != nil {
		return nil, "", err
	}
	for i, r := range recovered {
		if len(r.Batch.Changes) != whole[i].changes {
			return recovered[:i], fmt.Sprintf("batch %d has %d of its %d changes", r.Batch.Seq, len(r.Batch.Changes), whole[i].changes), nil
		}
	}
	return recovered, reason, nil
}

// stored is a row of batches.
type stored struct {
	epoch     int64
	seq       uint64
	changes   int
	positions []change.Position
}

func (s *Sink) batchesAfter(ctx context.Context, at tail, seq uint64) ([]stored, error) {
	const look = `select epoch, seq, changes, positions from kubecdc_log.batches
		where cluster = $1 and slot = $2 and epoch >= $3 and seq > $4 order by epoch, seq`
	rows, err := s.db.Query(ctx, look, s.cluster, at.slot, at.epoch, int64(seq))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (b stored, err error) {
		err = row.Scan(&b.epoch, &b.seq, &b.changes, &b.positions)
		return b, err
	})
}

// readable gives the batches that follow the checkpoint's without a hole, up to what memory may hold, and why these
// are not all, if so.
func readable(batches []stored, from, last uint64) (whole []stored, reason string) {
	changes := 0
	for i, b := range batches {
		if b.seq != from+uint64(i)+1 {
			return batches[:i], fmt.Sprintf("batch %d is missing", from+uint64(i)+1)
		}
		if changes += b.changes; changes > maxRecovered && i > 0 {
			return batches[:i], fmt.Sprintf("%d batches follow the checkpoint, too many to read at once", len(batches))
		}
	}
	if got := from + uint64(len(batches)); got < last {
		return batches, fmt.Sprintf("batch %d is missing", got+1)
	}
	return batches, ""
}

// changesOf reads the changes of the batches, in their order.
func (s *Sink) changesOf(ctx context.Context, at tail, from uint64, batches []stored) ([]sinks.Recovered, error) {
	if len(batches) == 0 {
		return nil, nil
	}
	recovered := make([]sinks.Recovered, len(batches))
	for i, b := range batches {
		recovered[i].Batch = change.Batch{Slot: at.slot, Epoch: b.epoch, Seq: b.seq, Positions: b.positions}
	}
	const look = `select batch, stream, op, namespace, name, uid, resource_version, after from kubecdc_log.changes
		where cluster = $1 and slot = $2 and epoch >= $3 and batch > $4 and batch <= $5 order by epoch, batch, n`
	rows, err := s.db.Query(ctx, look, s.cluster, at.slot, at.epoch, int64(from), int64(batches[len(batches)-1].seq))
	if err != nil {
		return nil, err
	}
	streams := map[string]*change.Stream{}
	var seq uint64
	var stream, op string
	var c change.Change
	into := []any{&seq, &stream, &op, &c.Namespace, &c.Name, &c.UID, &c.ResourceVersion, (*body)(&c.After)}
	_, err = pgx.ForEachRow(rows, into, func() error {
		if streams[stream] == nil {
			streams[stream] = change.StreamFromID(stream)
		}
		c.Stream, c.Op = streams[stream], change.Op(op[0])
		b := &recovered[seq-from-1].Batch
		b.Changes = append(b.Changes, c)
		return nil
	})
	return recovered, err
}

// body takes a json column as its text, byte for byte.
type body []byte

// ScanBytes implements pgtype.BytesScanner; the bytes are valid during the call only.
func (b *body) ScanBytes(v []byte) error {
	if *b = nil; v != nil {
		*b = append(body{}, v...)
	}
	return nil
}

package spool

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"kubecdc/change"
	"kubecdc/sinks"
)

// SQLite does not notice a damaged value. So each batch has a checksum of the data that is forwarded. The checksum is written
// before the batch, so that each batch has one. The next batch of that number overwrites a checksum without a batch.

// summed writes the checksum of each batch before the batch.
type summed struct {
	sinks.Log
	spool *Spool
}

func (l *summed) Write(ctx context.Context, b *change.Batch) (change.Offsets, error) {
	sum, err := sumOf(b)
	if err == nil {
		_, err = l.spool.file.DB().ExecContext(ctx, `insert or replace into spool_sums values (?, ?)`, int64(b.Seq), sum)
	}
	if err != nil {
		return nil, l.spool.file.Fail(fmt.Sprintf("write the checksum of batch %d", b.Seq), err)
	}
	return l.Log.Write(ctx, b)
}

// verify returns ErrUnusable for a batch that is not what was written.
func (s *Spool) verify(ctx context.Context, b *change.Batch) error {
	var want int64
	err := s.file.DB().QueryRowContext(ctx, `select sum from spool_sums where seq = ?`, int64(b.Seq)).Scan(&want)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return s.file.Fail(fmt.Sprintf("read the checksum of batch %d", b.Seq), err)
	}
	if sum, failed := sumOf(b); cmp.Or(err, failed) != nil || sum != want {
		return fmt.Errorf("%w: batch %d is damaged", ErrUnusable, b.Seq)
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf sums what is read back as it was written. States before and kinds are found again, and watermarks are made from
// positions. The order of positions and control records does not matter.
func sumOf(b *change.Batch) (int64, error) {
	var changes, others uint32
	for i := range b.Changes {
		c := &b.Changes[i]
		fields := fmt.Appendf(nil, "%v", []any{c.Stream.ID(), c.Op, c.Namespace, c.Name, c.UID, c.ResourceVersion,
			c.Time.UnixNano(), c.Inferred, c.Gap})
		changes = crc32.Update(crc32.Update(changes, castagnoli, fields), castagnoli, c.After)
	}
	for _, p := range b.Positions {
		others += crc32.Checksum(fmt.Appendf(nil, "%v", []any{p.Stream, p.ResourceVersion, p.Time.UnixMilli(), p.Ended}),
			castagnoli)
	}
	for _, m := range b.Malformed {
		others += crc32.Checksum(fmt.Appendf(nil, "%v", []any{m.Stream, m.Reason, m.Bytes}), castagnoli)
	}
	for _, c := range b.Controls {
		if c.Type == change.ControlWatermark {
			continue
		}
		c.Cluster, c.ClusterUID, c.Version, c.Slot, c.Epoch, c.Batch = "", "", 0, 0, 0, 0 // the writer sets these
		text, err := json.Marshal(&c)
		if err != nil {
			return 0, err
		}
		others += crc32.Checksum(text, castagnoli)
	}
	return int64(changes)<<32 | int64(others), nil
}

package spool

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"

	"kubecdc/change"
	"kubecdc/sinks"
)

// SQLite does not notice a damaged value. So each batch has a checksum of what is forwarded of it. The checksum is written before the
// batch, so that each batch has one. The next batch of that number overwrites a checksum without a batch.

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
	err := s.file.DB().QueryRowContext(ctx, `select coalesce((select sum from spool_sums where seq = ?), -1)`, int64(b.Seq)).Scan(&want)
	if err != nil {
		return s.file.Fail(fmt.Sprintf("read the checksum of batch %d", b.Seq), err)
	}
	if sum, err := sumOf(b); err != nil || sum != want {
		return fmt.Errorf("%w: batch %d is damaged", ErrUnusable, b.Seq)
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf leaves out the states before, which are prepared again, and what of times is not stored.
func sumOf(b *change.Batch) (int64, error) {
	var sum uint32
	var buf []byte
	add := func(texts ...any) {
		buf = buf[:0]
		for _, t := range texts {
			buf = fmt.Appendf(buf, "%v\x00", t)
		}
		sum = crc32.Update(sum, castagnoli, buf)
	}
	for i := range b.Changes {
		c := &b.Changes[i]
		add(c.Stream.ID(), c.Stream.Resource.Version, c.Stream.Resource.Kind, c.Op, c.Namespace, c.Name, c.UID, c.ResourceVersion, c.Time.UnixNano(),
			c.Inferred, c.Gap, len(c.After))
		sum = crc32.Update(sum, castagnoli, c.After)
	}
	for _, p := range b.Positions {
		add(p.Stream, p.ResourceVersion, p.Time.UnixMilli(), p.Ended)
	}
	for _, m := range b.Malformed {
		add(m.Stream, m.Reason, len(m.Bytes))
		sum = crc32.Update(sum, castagnoli, m.Bytes)
	}
	for _, c := range b.Controls {
		c.Cluster, c.ClusterUID, c.Version, c.Slot, c.Epoch, c.Batch = "", "", 0, 0, 0, 0 // the writer sets these
		text, err := json.Marshal(&c)
		if err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, castagnoli, text)
	}
	return int64(sum), nil
}

package producer

import "context"

// Foresee sets First and Last of a transaction's partitions to the offsets that the queued records will get if nobody else writes
// there. These offsets follow the marker of the partition's last transaction. Foresee returns false for a partition that the
// producer has not yet written to, or that others have written to lately. It also returns false if one record batch is not
// enough.
func (p *Producer) Foresee(ctx context.Context, partitions ...*Partition) (ok bool, err error) {
	ok = true
	for _, q := range partitions {
		ok = ok && q.connections > 0 && q.distrust == 0
		q.distrust = max(q.distrust-1, 0)
	}
	if !ok {
		return false, nil
	}
	for _, q := range partitions {
		if err := p.encode(ctx, q); err != nil {
			return false, err
		}
		ok = ok && q.pendingItems == q.Queued()
		q.First, q.Last = q.Next+1, q.Next+int64(q.pendingRecords)
		q.foreseen = [2]int64{q.First, q.Last}
	}
	return ok, nil
}

// distrustFor is how many transactions are not foreseen after a wrong prediction, since such a transaction is written twice.
const distrustFor = 64

// AsForeseen reports whether the partition's records have the foreseen offsets.
func (p *Partition) AsForeseen() bool {
	if p.foreseen == [2]int64{p.First, p.Last} {
		return true
	}
	p.distrust = distrustFor
	return false
}

package producer

import "context"

// Foresee sets First and Last of the partitions of a transaction to the offsets that what is queued for them will get if nobody else
// writes there: those after the marker of the partition's last transaction. ok is false where that can't be known: in a partition that
// the producer has not written to yet, or somebody else has lately, or where one record batch does not take all.
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

// distrustFor is how many transactions are not foreseen after one that was foreseen wrong: such a transaction is written twice.
const distrustFor = 64

// AsForeseen reports whether the partition's records have the offsets that were foreseen.
func (p *Partition) AsForeseen() bool {
	if p.foreseen == [2]int64{p.First, p.Last} {
		return true
	}
	p.distrust = distrustFor
	return false
}

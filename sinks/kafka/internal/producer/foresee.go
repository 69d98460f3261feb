package producer

import "context"

// Foresee tells the offsets that what is queued for the partitions of a transaction will get if nobody else writes there: those after the
// marker of the partition's last transaction. ok is false where that can't be known: in a partition that the producer has not written
// to yet, or somebody else has lately, or where one record batch does not take all.
func (p *Producer) Foresee(ctx context.Context, partitions ...*Partition) (offsets map[*Partition][2]int64, ok bool, err error) {
	ok = true
	for _, q := range partitions {
		ok = ok && q.connections > 0 && q.distrust == 0
		q.distrust = max(q.distrust-1, 0)
	}
	if !ok {
		return nil, false, nil
	}
	offsets = map[*Partition][2]int64{}
	for _, q := range partitions {
		if err := p.encode(ctx, q); err != nil {
			return nil, false, err
		}
		ok = ok && q.pendingItems == q.Queued()
		offsets[q] = [2]int64{q.Next + 1, q.Next + int64(q.pendingRecords)}
	}
	return offsets, ok, nil
}

// distrustFor is how many transactions are not foreseen after one that was foreseen wrong: such a transaction is written twice.
const distrustFor = 64

// Foreseen reports whether the partition's records have the offsets that were foreseen.
func (p *Partition) Foreseen(offsets [2]int64) bool {
	if p.First == offsets[0] && p.Last == offsets[1] {
		return true
	}
	p.distrust = distrustFor
	return false
}

package logread

import "kubecdc/sinks/kafka/internal/producer"

// Partitioning finds out over how many partitions the keys of a topic are spread.
type Partitioning struct {
	possible []int // numbers that agree with all keys so far
	seen     bool  // there was a key
}

// NewPartitioning begins with all numbers up to found, the number of partitions of the topic.
func NewPartitioning(found int) *Partitioning {
	p := &Partitioning{}
	for n := range found {
		p.possible = append(p.possible, n+1)
	}
	return p
}

// See takes a record's plain key, which decided on its partition.
func (p *Partitioning) See(key []byte, partition int32) {
	if p.seen = true; len(p.possible) < 2 {
		return
	}
	left := p.possible[:0]
	for _, n := range p.possible {
		if producer.PartitionOf(key, n) == int(partition) {
			left = append(left, n)
		}
	}
	p.possible = left
}

// Likely returns over how many partitions the keys are spread: the highest number that agrees with all of them. It returns 0 if
// there was no key. It also returns 0 if no number agrees, since another partitioner was used.
func (p *Partitioning) Likely() int {
	if len(p.possible) == 0 || !p.seen {
		return 0
	}
	return p.possible[len(p.possible)-1]
}

// PartitionsOf returns the partitions on which a key may be, or nil if it may be on any, since another partitioner was used.
func (p *Partitioning) PartitionsOf(key []byte) map[int]bool {
	if len(p.possible) == 0 {
		return nil
	}
	partitions := map[int]bool{}
	for _, n := range p.possible {
		partitions[producer.PartitionOf(key, n)] = true
	}
	return partitions
}

package logread

import "kubecdc/sinks/kafka/internal/producer"

// Partitioning finds out over how many partitions the keys of a topic are spread.
type Partitioning struct {
	possible []int // that agree with all keys seen
	seen     bool  // any was
}

// NewPartitioning begins with all numbers up to that of the partitions that the topic has.
func NewPartitioning(found int) *Partitioning {
	p := &Partitioning{}
	for n := range found {
		p.possible = append(p.possible, n+1)
	}
	return p
}

// See takes the plain key of a record, by which its partition was chosen.
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

// Likely is the highest possible number; 0 if there is none, since another partitioner was used, or no key was seen.
func (p *Partitioning) Likely() int {
	if len(p.possible) == 0 || !p.seen {
		return 0
	}
	return p.possible[len(p.possible)-1]
}

// Of returns on which partitions a key may be; nil: on any, since another partitioner was used.
func (p *Partitioning) Of(key []byte) map[int]bool {
	if len(p.possible) == 0 {
		return nil
	}
	at := map[int]bool{}
	for _, n := range p.possible {
		at[producer.PartitionOf(key, n)] = true
	}
	return at
}

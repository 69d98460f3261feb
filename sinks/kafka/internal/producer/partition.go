package producer

import (
	"github.com/segmentio/kafka-go"

	"kubecdc/internal/slab"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// MinLimit is the smallest limit of record batches that is assumed, whatever a broker refuses.
const MinLimit = 1024

// Topic is a topic to write to. A key remains on its partition while the number of partitions does not change.
type Topic struct {
	Name       string
	Partitions []*Partition
	indexes    []int // 0, 1, 2 …, for the partitioner

	// These are learned from the broker's answers: the largest batch that it has not refused, the size to aim for, and the ratio
	// of compression.
	limit int
	aim   int
	ratio float64
}

// maxPlain bounds a batch before compression, and so memory.
const maxPlain = 8 << 20

// NewTopic returns a topic with a number of partitions, and a limit of record batches in bytes (max.message.bytes).
func NewTopic(name string, partitions, maxBatch int) *Topic {
	t := &Topic{Name: name, limit: maxBatch, aim: maxBatch, ratio: 1}
	for i := range partitions {
		t.indexes = append(t.indexes, i)
		t.Partitions = append(t.Partitions, &Partition{Topic: t, Index: int32(i)})
	}
	return t
}

// Partition returns the partition of a key, like Kafka's Java producer: by murmur2.
func (t *Topic) Partition(key []byte) *Partition {
	return t.Partitions[murmur2.Balance(kafka.Message{Key: key}, t.indexes...)]
}

// PartitionOf returns the partition of a key among n partitions.
func PartitionOf(key []byte, n int) int {
	indexes := make([]int, n)
	for i := range indexes {
		indexes[i] = i
	}
	return murmur2.Balance(kafka.Message{Key: key}, indexes...)
}

var murmur2 = kafka.Murmur2Balancer{Consistent: true}

// Aim returns the intended size of record batches in bytes. It shrinks when the broker refuses one.
func (t *Topic) Aim() int { return t.aim }

// plainAim returns the size to fill a batch to before compression.
func (t *Topic) plainAim() int {
	return min(int(float64(t.aim)/t.ratio*0.9), maxPlain)
}

// learn records how well a batch was compressed. It follows a better ratio slowly, a worse one at once.
func (t *Topic) learn(plain, sent int) {
	ratio := max(float64(sent)/float64(plain), 0.01)
	if ratio < t.ratio {
		ratio = t.ratio + (ratio-t.ratio)*0.2
	}
	t.ratio = ratio
}

// Raise records a larger limit of the topic. It reports whether the limit is larger.
func (t *Topic) Raise(limit int) bool {
	if limit <= t.limit {
		return false
	}
	t.limit, t.aim = limit, limit
	return true
}

// learnRefused records that the broker refused a batch of this size.
func (t *Topic) learnRefused(size int) {
	t.limit = max(min(t.limit, size-1), MinLimit)
	t.aim = max(min(t.aim, size/2), MinLimit)
}

// Partition is one partition of a topic with its queue. The queue has items, which the Source appends to a record batch, or
// records, but never both.
type Partition struct {
	Topic *Topic
	Index int32
	// Written means that records were acknowledged since Reset. First and Last are the first and last offset.
	Written     bool
	First, Last int64
	// Next is the lowest offset that the next record can have, since all lower ones are taken.
	Next int64
	// Doubt means that the broker may have lost records, by its last answer. Lost means that it has certainly lost records.
	Doubt, Lost bool
	// MustCheck means that the broker may have lost the last record that it acknowledged before this transaction, at offset
	// Before-1. The reason is a new connection, or another writer. The broker does not notice it if each transaction begins a
	// new sequence.
	MustCheck bool
	Before    int64

	foreseen [2]int64 // first and last offset
	distrust int      // so many transactions are not foreseen, since somebody else has written here

	sender   identity
	sequence int32 // sequence of the next record for this sender, as the broker counts
	items    []int32
	records  []recordbatch.Record
	next     int // first queued record or item that is not acknowledged

	pending        *slab.Slab // encoded record batch to send; nil: encode the next
	pendingItems   int        // number of queued records or items in it
	pendingRecords int
	leader         int32
	connections    int64 // number of connections before the last write, or 0
	most           int   // limit of the next batch; 0: no limit

	answer answer
}

// Reset empties the queue, for the next transaction.
func (p *Partition) Reset() {
	p.Clear()
	p.Written, p.MustCheck = false, false
}

// Clear empties the queue within a transaction. What the partition knows of acknowledged records remains (Written, First,
// Last).
func (p *Partition) Clear() {
	p.items, p.records, p.next = p.items[:0], p.records[:0], 0
	p.pending, p.most = nil, 0
}

// Rewind queues again what the broker has, for another transaction.
func (p *Partition) Rewind() {
	p.next, p.pending, p.most, p.Written = 0, nil, 0, false
}

// Queue adds an item.
func (p *Partition) Queue(item int32) { p.items = append(p.items, item) }

// QueueRecord adds a record.
func (p *Partition) QueueRecord(r recordbatch.Record) { p.records = append(p.records, r) }

// Queued returns how much is queued, acknowledged or not.
func (p *Partition) Queued() int { return len(p.items) + len(p.records) }

// Acknowledged returns how much of the queue the broker has.
func (p *Partition) Acknowledged() int { return p.next }

// Begun reports whether the broker has accepted records of this producer.
func (p *Partition) Begun() bool { return p.sequence > 0 }

func (p *Partition) done() bool { return p.next == p.Queued() }

// acknowledge records that the broker has the pending record batch.
func (p *Partition) acknowledge(baseOffset int64) {
	if !p.Written {
		p.First = baseOffset
	}
	p.Written = true
	p.Last = baseOffset + int64(p.pendingRecords) - 1
	p.Next = p.Last + 1
	p.sequence = nextSequence(p.sequence, p.pendingRecords)
	p.next += p.pendingItems
	p.pending, p.most = nil, 0
}

// nextSequence wraps from the largest int32 to 0, as brokers expect.
func nextSequence(s int32, n int) int32 { return int32((int64(s) + int64(n)) & 0x7fffffff) }

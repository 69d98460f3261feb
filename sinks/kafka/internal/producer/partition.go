package producer

import (
	"github.com/segmentio/kafka-go"

	"kubecdc/internal/slab"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// MinLimit is the least limit of a record batch that is assumed, whatever a broker refuses.
const MinLimit = 1024

// Topic is a topic that is written to. A key stays on its partition as long as the number of partitions does not change.
type Topic struct {
	Name       string
	Partitions []*Partition
	indexes    []int // 0, 1, 2 …: what the partitioner chooses from

	// What the broker's answers teach: the largest batch that it has not refused, the size to aim for, and how much
	// smaller compression makes a batch.
	limit int
	aim   int
	ratio float64
}

// maxPlain bounds a batch before compression, hence memory.
const maxPlain = 8 << 20

// NewTopic makes a topic with so many partitions, that takes record batches of so many bytes (max.message.bytes).
func NewTopic(name string, partitions, maxBatch int) *Topic {
	t := &Topic{Name: name, limit: maxBatch, aim: maxBatch, ratio: 1}
	for i := range partitions {
		t.indexes = append(t.indexes, i)
		t.Partitions = append(t.Partitions, &Partition{Topic: t, Index: int32(i)})
	}
	return t
}

// Partition chooses the partition of a key as Kafka's Java producer does: by murmur2.
func (t *Topic) Partition(key []byte) *Partition {
	return t.Partitions[murmur2.Balance(kafka.Message{Key: key}, t.indexes...)]
}

// PartitionOf is that choice among n partitions.
func PartitionOf(key []byte, n int) int {
	indexes := make([]int, n)
	for i := range indexes {
		indexes[i] = i
	}
	return murmur2.Balance(kafka.Message{Key: key}, indexes...)
}

var murmur2 = kafka.Murmur2Balancer{Consistent: true}

// Aim is the size in bytes that record batches are made to have. It shrinks when the broker refuses one.
func (t *Topic) Aim() int { return t.aim }

// plainAim is the size to fill a batch to before compression.
func (t *Topic) plainAim() int {
	return min(int(float64(t.aim)/t.ratio*0.9), maxPlain)
}

// learn notes how well a batch was compressed. A better ratio is followed slowly, a worse one at once.
func (t *Topic) learn(plain, sent int) {
	ratio := max(float64(sent)/float64(plain), 0.01)
	if ratio < t.ratio {
		ratio = t.ratio + (ratio-t.ratio)*0.2
	}
	t.ratio = ratio
}

// Raise notes that the topic takes larger record batches by now. It reports whether that is so.
func (t *Topic) Raise(limit int) bool {
	if limit <= t.limit {
		return false
	}
	t.limit, t.aim = limit, limit
	return true
}

// learnRefused notes that a batch of this size was too large for the broker.
func (t *Topic) learnRefused(size int) {
	t.limit = max(min(t.limit, size-1), MinLimit)
	t.aim = max(min(t.aim, size/2), MinLimit)
}

// Partition is one partition of a topic, and what is queued for it: items, which the Source appends to a record batch, or
// records. It never has both.
type Partition struct {
	Topic *Topic
	Index int32
	// Written: something was acknowledged since Reset; First and Last are its first and last offset.
	Written     bool
	First, Last int64
	// Next is the least offset that the next record can have, since all before it are taken.
	Next int64
	// Doubt: the broker's last answer says that it may have lost records; Lost: that it certainly has.
	Doubt, Lost bool
	// Look: since the partition was last written to, connections were made, or others have written. So the broker may have lost the
	// record before offset Before, the last that it had acknowledged then; and where each transaction begins a new sequence, it would
	// not notice.
	Look   bool
	Before int64

	foreseen [2]int64 // first and last offset
	distrust int      // so many transactions are not foreseen, since somebody else has written to the partition

	of       identity
	sequence int32 // of the next record, as the broker counts those of this identity
	items    []int32
	records  []recordbatch.Record
	next     int // the first of the queue that is not acknowledged

	pending        *slab.Slab // encoded record batch that is to be sent; nil: encode the next
	pendingItems   int        // how many of the queue it holds
	pendingRecords int
	leader         int32
	connections    int64 // that were made before the last write; 0: it is not written to yet
	most           int   // at most so many of the queue in the next batch; 0: no limit

	answer answer
}

// Reset empties the queue, for the next transaction.
func (p *Partition) Reset() {
	p.Clear()
	p.Written, p.Look = false, false
}

// Clear empties the queue within a transaction.
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

// Queued is how much is queued, acknowledged or not.
func (p *Partition) Queued() int { return len(p.items) + len(p.records) }

// Acknowledged is how much of that the broker has.
func (p *Partition) Acknowledged() int { return p.next }

// Begun reports whether the broker has taken something of this producer.
func (p *Partition) Begun() bool { return p.sequence > 0 }

func (p *Partition) done() bool { return p.next == p.Queued() }

// acknowledge notes that the broker has the pending record batch.
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

package kafka

import (
	"github.com/segmentio/kafka-go"

	"kubecdc/sinks/kafka/internal/recordbatch"
)

// topic is a topic as one log sees it. The number of partitions stays as it was when the topic was made (Config.Pin):
// a key must not move.
type topic struct {
	*topicInfo
	partitions []*partition
	indexes    []int // 0, 1, 2 …: what the partitioner chooses from

	// What the broker teaches: the largest batch that it has not refused, the size to aim for, and how much
	// smaller compression makes a batch.
	limit int
	aim   int
	ratio float64
}

// maxPlain bounds a batch before compression, hence memory.
const maxPlain = 8 << 20

func newTopic(info *topicInfo) *topic {
	t := &topic{topicInfo: info, limit: info.maxBatch, aim: info.maxBatch, ratio: 1}
	for i := range info.partitions {
		t.indexes = append(t.indexes, i)
		t.partitions = append(t.partitions, &partition{topic: t, index: int32(i)})
	}
	return t
}

// partitionOf is the choice of Kafka's own Java producer: murmur2 of the key.
func (t *topic) partitionOf(key []byte) *partition {
	return t.partitions[murmur2.Balance(kafka.Message{Key: key}, t.indexes...)]
}

// partitionFor is that choice among n partitions.
func partitionFor(key []byte, n int) int {
	indexes := make([]int, n)
	for i := range indexes {
		indexes[i] = i
	}
	return murmur2.Balance(kafka.Message{Key: key}, indexes...)
}

var murmur2 = kafka.Murmur2Balancer{Consistent: true}

// plainAim is the size to fill a batch to before compression.
func (t *topic) plainAim() int {
	return min(int(float64(t.aim)/t.ratio*0.9), maxPlain)
}

// learn notes how well a batch was compressed: slowly for the better, at once for the worse.
func (t *topic) learn(plain, sent int) {
	ratio := max(float64(sent)/float64(plain), 0.01)
	if ratio < t.ratio {
		ratio = t.ratio + (ratio-t.ratio)*0.2
	}
	t.ratio = ratio
}

// learnRefused notes that a batch of this size was too large for the broker.
func (t *topic) learnRefused(size int) {
	t.limit = max(min(t.limit, size-1), minLimit)
	t.aim = max(min(t.aim, size/2), minLimit)
}

// partition is one partition of a topic, and what the batch at hand has for it.
type partition struct {
	topic    *topic
	index    int32
	sequence int32 // of the next record, as the broker counts this producer's

	inTxn   bool
	queue   []int32              // changes of the batch, by index, in order
	records []recordbatch.Record // or these, where they are not changes
	next    int                  // first of them that is not yet acknowledged

	pending        []byte // encoded record batch that is to be sent; nil: encode the next
	pendingItems   int    // how many of the queue it holds
	pendingRecords int
	most           int // at most so many items in the next; 0: no limit

	answer      answer
	written     bool
	first, last int64 // offsets of the batch's records
}

func (p *partition) items() int { return len(p.queue) + len(p.records) }

func (p *partition) done() bool { return p.next == p.items() }

// begin forgets the previous batch.
func (p *partition) begin() {
	p.queue, p.records, p.next = p.queue[:0], p.records[:0], 0
	p.pending, p.most = nil, 0
	p.written, p.inTxn = false, false
}

// acknowledged notes that the broker has the pending record batch, whose buffer the caller may use again.
func (p *partition) acknowledged(baseOffset int64) {
	if !p.written {
		p.first = baseOffset
	}
	p.written = true
	p.last = baseOffset + int64(p.pendingRecords) - 1
	p.sequence = nextSequence(p.sequence, p.pendingRecords)
	p.next += p.pendingItems
	p.pending, p.most = nil, 0
}

// nextSequence wraps from the largest int32 to 0, as brokers expect.
func nextSequence(s int32, n int) int32 { return int32((int64(s) + int64(n)) & 0x7fffffff) }

package kafka

import (
	"context"
	"fmt"
	"strconv"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/encoding"
	"kubecdc/sinks/kafka/internal/producer"
)

// fold reads one partition after another. An object's records are all on one, in order: the last one has its state.
func (f *folder) fold(
	ctx context.Context, visit func(*change.Change) error, progress func(sinks.Progress),
) (sinks.Progress, error) {
	counts := map[string]*partitioning{}
	for _, p := range f.parts {
		if counts[p.topic] == nil {
			counts[p.topic] = newPartitioning(p.partitions)
		}
		if err := f.part(ctx, p, counts[p.topic], visit, progress); err != nil {
			return f.folded, err
		}
	}
	return f.folded, f.pin(ctx, counts)
}

func (f *folder) part(
	ctx context.Context, p foldPart, count *partitioning, visit func(*change.Change) error, progress func(sinks.Progress),
) error {
	before := f.folded.Records
	var reader *consumer.Reader
	reader = consumer.New(f.log.sink.client, consumer.Range{Topic: p.topic, Partition: p.partition, First: p.first,
		Wanted: func(r *consumer.Record) bool {
			f.folded.Records = before + reader.Records()
			progress(f.folded)
			return f.wants(p.topic, r)
		},
		Visit: func(r consumer.Record) error {
			count.see(f.log.sink.encodings, &r, p.partition)
			f.folded.Bytes += int64(len(r.Key) + len(r.Value))
			return f.object(ctx, r, visit)
		}})
	err := reader.ReadTo(ctx, p.next-1)
	f.folded.Records = before + reader.Records()
	return err
}

// wants selects the records of the cluster's changes of the selected streams. A topic may belong to another prefix that begins
// with this one.
func (f *folder) wants(topic string, r *consumer.Record) bool {
	id := change.StreamID(r.Headers[change.HeaderStream])
	if !isChange(r) || !f.wanted.Stream(id) || change.TopicOf(f.log.envelope.Prefix, id) != topic {
		return false
	}
	_, key, err := keyOf(f.log.sink.encodings, r)
	return err != nil || key.Cluster == f.log.envelope.Cluster // an error is returned by object
}

// object visits the change of a record. Records without a transaction may be of a batch that was never finished, which is
// skipped: it was written again, or will be. But a list is compared with all that consumers have read.
func (f *folder) object(ctx context.Context, r consumer.Record, visit func(*change.Change) error) error {
	if !r.Transactional && !f.finished(r.Headers) && !f.lists(&r) {
		return nil
	}
	e, key, err := keyOf(f.log.sink.encodings, &r)
	if err != nil {
		return err
	}
	c := changeOf(&r, key)
	if c.Op != change.Delete && f.wanted.Bodies {
		d, err := e.Decode(ctx, r.Value, r.Headers)
		if err != nil {
			return err
		}
		c.After = d.After
	}
	return visit(&c)
}

func (f *folder) finished(headers map[string]string) bool {
	slot, err1 := strconv.Atoi(headers[change.HeaderSlot])
	epoch, err2 := strconv.ParseInt(headers[change.HeaderEpoch], 10, 64)
	batch, err3 := strconv.ParseUint(headers[change.HeaderBatch], 10, 64)
	h := f.history.slots[slot]
	return err1 != nil || err2 != nil || err3 != nil || h == nil || h.owners.finished(epoch, batch)
}

// lists reports whether the stream of a record begins with a list: its position is not known, or its topic has lost records.
func (f *folder) lists(r *consumer.Record) bool {
	id := change.StreamID(r.Headers[change.HeaderStream])
	at := f.history.streams[id].ResourceVersion
	return at == "" || at == change.UnknownVersion || f.log.lossy[change.TopicOf(f.log.envelope.Prefix, id)] != nil
}

// pin stores in the checkpoint over how many partitions of each topic the keys are spread. If partitions were added, that is
// less than the topic has now.
func (f *folder) pin(ctx context.Context, counts map[string]*partitioning) error {
	for topic, count := range counts {
		if n := count.likely(); n > 0 {
			if _, err := f.log.sink.cfg.Pin(ctx, topic, n, false); err != nil {
				return fmt.Errorf("note how many partitions of %s are written to: %w", topic, err)
			}
		}
	}
	f.log.sink.topics.forget()
	return nil
}

// partitioning finds out over how many partitions the keys of a topic are spread.
type partitioning struct{ possible []int } // that agree with all keys seen

func newPartitioning(found int) *partitioning {
	p := &partitioning{}
	for n := range found {
		p.possible = append(p.possible, n+1)
	}
	return p
}

func (p *partitioning) see(s encoding.Set, r *consumer.Record, partition int32) {
	if len(p.possible) < 2 {
		return
	}
	key := plainKey(s, r)
	left := p.possible[:0]
	for _, n := range p.possible {
		if producer.PartitionOf(key, n) == int(partition) {
			left = append(left, n)
		}
	}
	p.possible = left
}

// likely is the highest possible number; 0 if there is none, since another partitioner was used.
func (p *partitioning) likely() int {
	if len(p.possible) == 0 {
		return 0
	}
	return p.possible[len(p.possible)-1]
}

package kafka

import (
	"context"
	"encoding/json"
	"fmt"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/logread"
	"kubecdc/sinks/kafka/internal/producer"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// Replay writes changes of another log into the topics of a prefix that no exporter writes to. Each Write is one transaction,
// like a batch of an exporter. One goroutine uses it.
type Replay struct {
	sink     *Sink
	id       string
	producer *producer.Producer
	topics   map[string]*producer.Topic
	control  *producer.Partition
	active   []*producer.Partition
	envelope change.Envelope
	plain    []byte // plain key of a record, which decides on its partition
}

// NewReplay returns a writer for the topics of the configuration's prefix. It does not connect, but Open does. The topics that it
// creates retain everything, unless the configuration says otherwise, since replayed records are already old.
func NewReplay(cfg Config) (*Replay, error) {
	if cfg.History == 0 {
		cfg.History = sinks.Forever
	}
	s, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return &Replay{sink: s, topics: map[string]*producer.Topic{}, envelope: change.Envelope{Cluster: cfg.Cluster}}, nil
}

// Identity returns the identity of the log that an exporter with this configuration would write.
func (r *Replay) Identity(ctx context.Context) (string, error) { return r.sink.Identity(ctx) }

// Open fences an earlier process of the same replay, and visits the control records of all replays. A control record of an
// exporter is an error, since that log's consumers must not get records twice.
func (r *Replay) Open(ctx context.Context, id string, visit func(*change.Control) error) error {
	name := change.ControlTopic(r.sink.cfg.TopicPrefix)
	t, err := r.sink.topics.Topic(ctx, r.topics, name)
	if err != nil {
		return err
	}
	r.id, r.control = id, t.Partitions[0]
	if r.producer, err = producer.New(ctx, r.sink.client, producer.Options{
		TransactionalID: r.sink.cfg.TopicPrefix + "-replay-" + id, Timeout: r.sink.cfg.TransactionTimeout, Codec: r.sink.codec,
		Protocol1: !r.sink.cfg.Protocol2,
	}); err != nil {
		return err
	}
	starts, ends, err := r.sink.client.Bounds(ctx, name)
	if err != nil {
		return err
	}
	for p, end := range ends {
		reader := consumer.New(r.sink.client, consumer.Range{Topic: name, Partition: int32(p), First: starts[p],
			Visit: func(f consumer.Record) error { return r.see(f, visit) }})
		if err := reader.ReadTo(ctx, end-1); err != nil {
			return err
		}
	}
	return nil
}

func (r *Replay) see(f consumer.Record, visit func(*change.Control) error) error {
	if f.Headers[change.HeaderType] == "" {
		return nil // another program's record
	}
	c := &change.Control{}
	if err := json.Unmarshal(f.Value, c); err != nil {
		return fmt.Errorf("decode the control record at offset %d: %w", f.Offset, err)
	}
	if c.Replay == nil {
		return fmt.Errorf("the topics %s.* have the log of an exporter (cluster %q): replay to a prefix of its own",
			r.sink.cfg.TopicPrefix, c.Cluster)
	}
	return visit(c)
}

// Used returns the first of some topics that has records, or "".
func (r *Replay) Used(ctx context.Context, topics []string) (string, error) {
	starts, ends, err := r.sink.Bounds(ctx, topics)
	for _, topic := range topics {
		for p, end := range ends[topic] {
			if end > starts[topic][p] {
				return topic, err
			}
		}
	}
	return "", err
}

// Write writes changes in their order, each with the id of the replay, then the control record.
func (r *Replay) Write(ctx context.Context, changes []sinks.Logged, c *change.Control) error {
	err := r.write(ctx, changes, c)
	if err != nil {
		r.sink.abort(r.producer, err)
		return fmt.Errorf("write to the topics %s.*: %w", r.sink.cfg.TopicPrefix, asInvalidWriter(err))
	}
	failpoint.Hit(failpoint.Written)
	return nil
}

func (r *Replay) write(ctx context.Context, changes []sinks.Logged, c *change.Control) error {
	for _, p := range r.active {
		p.Reset()
	}
	r.active = r.active[:0]
	for i := range changes {
		if err := r.queue(ctx, &changes[i]); err != nil {
			return err
		}
	}
	data := len(r.active)
	r.active = append(r.active, r.control)
	if err := r.producer.Add(ctx, r.active...); err != nil {
		return err
	}
	if err := r.producer.Produce(ctx, r.active[:data:data]...); err != nil {
		return err
	}
	failpoint.Hit(failpoint.DataProduced)
	value, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode control record %s: %w", c.Type, err)
	}
	var headers recordbatch.Headers
	recordbatch.AddHeader(&headers, change.HeaderType, c.Type)
	recordbatch.AddHeader(&headers, change.HeaderReplay, r.id)
	r.control.QueueRecord(recordbatch.Record{Time: c.TimeMs, Value: [][]byte{value}, Headers: headers,
		Key: fmt.Appendf(nil, `{"cluster":%s,"replay":%s}`, logread.JSON(c.Cluster), logread.JSON(r.id))})
	if err := r.producer.Produce(ctx, r.control); err != nil {
		return err
	}
	return r.producer.End(ctx, true)
}

// queue queues the original record of a change. A delete is followed by its tombstone.
func (r *Replay) queue(ctx context.Context, l *sinks.Logged) error {
	t, err := r.sink.topics.Topic(ctx, r.topics, change.Topic(r.sink.cfg.TopicPrefix, l.Change.Stream.Resource))
	if err != nil {
		return err
	}
	r.plain = r.envelope.AppendKey(r.plain[:0], &l.Change)
	p := t.Partition(r.plain)
	if p.Queued() == 0 {
		r.active = append(r.active, p)
	}
	record := recordbatch.Record{Time: l.Logged.UnixMilli(), Key: l.Key, Value: [][]byte{l.Value}, Tombstone: l.Value == nil}
	record.Headers = r.headers(l.Headers, false)
	p.QueueRecord(record)
	if l.Op == change.Delete && !record.Tombstone {
		record.Headers = r.headers(l.Headers, true)
		record.Tombstone = true
		p.QueueRecord(record)
	}
	return nil
}

// headers encodes the headers of a replayed record, or of the tombstone after it, which has the op tombstone and no content.
func (r *Replay) headers(all []sinks.Header, tombstone bool) (encoded recordbatch.Headers) {
	for _, h := range all {
		if tombstone && h.Key == change.HeaderContentType {
			continue
		}
		if tombstone && h.Key == change.HeaderOp {
			h.Value = change.OpTombstone
		}
		recordbatch.AddHeader(&encoded, h.Key, h.Value)
	}
	recordbatch.AddHeader(&encoded, change.HeaderReplay, r.id)
	return encoded
}

// Close closes the connections.
func (r *Replay) Close() error { return r.sink.Close() }

package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/sinks"
	"kubecdc/sinks/encoding"
	"kubecdc/sinks/encoding/registry"
	"kubecdc/sinks/kafka/internal/admin"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/logread"
	"kubecdc/sinks/kafka/internal/producer"
	"kubecdc/sinks/kafka/internal/reader"
	"kubecdc/sinks/kafka/internal/recordbatch"
	"kubecdc/sinks/kafka/internal/takeover"
)

// Kind describes the sink.
var Kind = sinks.Kind{Name: "kafka", Page: "docs/operations.md#kafka", CheckpointMayForget: true, RebuildsCheckpoint: true,
	Spools:         true,
	SnapshotTopics: true}

// Sink is the Kafka destination.
type Sink struct {
	*admin.Admin
	cfg       Config
	client    *cluster.Client
	topics    *admin.Topics
	codec     recordbatch.Codec
	encodings encoding.Set
	log       *logread.Log
	takeover  *takeover.Shared
	reader    *reader.Reader
	searches  sinks.HoleSearch[*reader.Numbers]
	audit     *auditLog
	protocol  atomic.Int32 // protocol in the last log line, or 0
}

var _ sinks.Sink = (*Sink)(nil)

// New validates the configuration. It does not connect, but Open does.
func New(cfg Config) (*Sink, error) { return newSink(cfg, false) }

// newSink returns a sink that writes, or only reads.
func newSink(cfg Config, readOnly bool) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("kafka settings: %w", err)
	}
	cfg.SetDefaults()
	mechanism, err := cfg.SASL.Login()
	if err != nil {
		return nil, fmt.Errorf("prepare the SASL login: %w", err)
	}
	codec, err := recordbatch.NewCodec(cfg.Compression)
	if err != nil {
		return nil, err
	}
	avro := encoding.AvroOptions{Schemas: cfg.Schemas, Logger: cfg.Logger}
	if len(cfg.Registry.URLs) > 0 {
		if avro.Registry, err = registry.New(cfg.Registry); err != nil {
			return nil, err
		}
	}
	s := &Sink{cfg: cfg, codec: codec}
	avro.Await, avro.LastKey = s.awaitSchemas, s.lastKey
	s.encodings = encoding.NewSet(avro)
	options := cluster.Options{
		Brokers: cfg.Brokers, ClientID: cfg.ClientID, Dial: cfg.Dial, SASL: mechanism, RequestTimeout: cfg.RequestTimeout,
		ReplicationFactor: cfg.ReplicationFactor, Logger: cfg.Logger, Stuck: cfg.Observer.SinkStuck,
		Hint: func(err error) string { return admin.Hint(&cfg, readOnly, err) },
	}
	s.client, s.audit = cluster.New(options), newAuditLog(s, options)
	s.log = &logread.Log{Client: s.client, Encodings: s.encodings, ClusterUID: cfg.ClusterUID, ClusterIDs: cfg.ClusterIDs,
		Envelope: change.Envelope{Cluster: cfg.Cluster, Prefix: cfg.TopicPrefix, Version: cfg.Version}}
	s.topics = admin.NewTopics(&s.cfg, s.client)
	s.takeover = &takeover.Shared{Log: s.log, Config: &s.cfg, Writable: s.topics, Doubts: takeover.NewDoubts()}
	s.reader = reader.New(s.log, s.topics.DataSettings())
	s.Admin = admin.New(&s.cfg, s.client, s.encodings, s.topics)
	return s, nil
}

// Close closes the connections.
func (s *Sink) Close() error {
	s.client.Close()
	s.audit.client.Close()
	return nil
}

// Open checks that the log belongs to this cluster, and fences the slot's earlier writers. Then it writes an "open" record to the
// control topic, up to which the tail is read.
func (s *Sink) Open(ctx context.Context, slot int, epoch int64, from sinks.Durable) (*sinks.Opened, error) {
	s.topics.Forget()
	l, err := s.open(ctx, slot, epoch, from)
	if err == nil {
		opened := l.past.Opened(l)
		if opened.Lost == nil {
			opened.Hole, err = l.searchHole(ctx)
		}
		if err == nil {
			return opened, nil
		}
	}
	if l != nil {
		l.broken = err
		s.abort(l.producer, err)
	}
	if other := otherLog(err); other != nil {
		return nil, other
	}
	return nil, fmt.Errorf("open slot %d: %w", slot, asInvalidWriter(err))
}

func (s *Sink) open(ctx context.Context, slot int, epoch int64, from sinks.Durable) (l *slotLog, err error) {
	if l, err = s.newLog(ctx, slot, epoch); err != nil {
		return nil, err
	}
	if err := l.past.Verify(ctx, from); err != nil {
		return l, err
	}
	// Fencing an owner that was killed ends its transaction, and the markers would fill the offsets of lost records.
	if err := l.past.Inspect(ctx, from.Offsets); err != nil {
		return l, err
	}
	if from.New { // the lost checkpoint may have used another id of the cluster
		for _, uid := range s.cfg.ClusterIDs {
			if _, err := l.newProducer(ctx, uid); err != nil {
				return l, err
			}
		}
	}
	if l.producer, err = l.newProducer(ctx, s.cfg.ClusterUID); err != nil {
		return l, err
	}
	// With at-least-once delivery the open record fences: the control partition then has the newer producer epoch, so no older
	// writer can finish a batch.
	offset, err := l.writeOpen(ctx, from.Seq)
	if err != nil {
		return l, fmt.Errorf("write the open record: %w", err)
	}
	return l, l.past.End(ctx, offset)
}

// VerifyCluster implements sinks.Sink: it reads what Open would read, and creates no topic.
func (s *Sink) VerifyCluster(ctx context.Context, slot int, from sinks.Durable) error {
	_, err := s.client.Leaders(ctx, s.log.ControlTopic())
	if cluster.NoTopic(err) {
		return s.takeover.VerifyNew(ctx)
	}
	l, err := s.newLog(ctx, slot, 0)
	if err == nil {
		err = l.past.Verify(ctx, from)
	}
	if fault.Is[*sinks.NewerEpochError](err) {
		return nil
	}
	return cmp.Or(otherLog(err), err)
}

// otherLog returns the OtherClusterError or the OtherEncodingError in an error, which need no context, or nil.
func otherLog(err error) error {
	if other, ok := errors.AsType[*sinks.OtherClusterError](err); ok {
		return other
	}
	if encoded, ok := errors.AsType[*sinks.OtherEncodingError](err); ok {
		return encoded
	}
	return nil
}

func (s *Sink) newLog(ctx context.Context, slot int, epoch int64) (*slotLog, error) {
	l := &slotLog{
		sink: s, slot: slot, epoch: epoch, envelope: s.log.Envelope,
		encoder: s.encodings[s.cfg.Encoding].NewEncoder(s.log.Envelope),
		topics:  map[string]*producer.Topic{}, streams: map[*change.Stream]*producer.Topic{}, spread: map[string]int{},
		stubs: map[int32]*stub{},
	}
	t, err := s.topics.Topic(ctx, l.topics, s.log.ControlTopic())
	if err != nil {
		return nil, err
	}
	l.control = t.Partitions[slot%len(t.Partitions)]
	l.past, err = s.takeover.Slot(ctx, slot, epoch, l.control)
	return l, err
}

// writeOpen writes the "open" record and returns its offset.
func (l *slotLog) writeOpen(ctx context.Context, seq uint64) (int64, error) {
	l.begin(&change.Batch{Slot: l.slot, Epoch: l.epoch, Seq: seq})
	l.active = append(l.active, l.control)
	if err := l.producer.Add(ctx, l.active...); err != nil {
		return 0, err
	}
	if err := l.writeControl(ctx, []change.Control{change.OpenControl(l.encodingName())}); err != nil {
		return 0, err
	}
	return l.control.Last, l.producer.End(ctx, true)
}

// abort tries for 2 s to abort an open transaction, so that read_committed consumers do not wait for its timeout. If its end was
// already requested, it is left to the coordinator.
func (s *Sink) abort(p *producer.Producer, reason error) {
	if p == nil || !p.InTransaction() || cluster.Judge(reason) == cluster.Fenced {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := p.End(ctx, false); err != nil {
		s.cfg.Logger.Debug("can't abort the open transaction; its timeout or the next owner will",
			"transactional_id", p.TransactionalID, "error", err)
	}
}

// newProducer fences every earlier producer of the slot. At-least-once delivery fences by the same transactional id.
func (l *slotLog) newProducer(ctx context.Context, uid string) (*producer.Producer, error) {
	cfg := &l.sink.cfg
	p, err := producer.New(ctx, l.sink.client, producer.Options{
		TransactionalID: cfg.TransactionalID(uid, l.slot), Idempotent: cfg.Delivery != ExactlyOnce,
		Timeout: cfg.TransactionTimeout, Codec: l.sink.codec, Source: l, Protocol1: !cfg.Protocol2,
	})
	if n, why := p.Protocol(); err == nil && cfg.Delivery == ExactlyOnce && l.sink.protocol.Swap(int32(n)) != int32(n) {
		cfg.Logger.Info("how Kafka's transactions are made", "protocol", n, "why",
			cmp.Or(why, "all brokers make them by protocol 2"))
	}
	return p, err
}

// asInvalidWriter adds sinks.ErrInvalidWriter to the error of a fenced producer.
func asInvalidWriter(err error) error {
	if cluster.Judge(err) == cluster.Fenced {
		return fmt.Errorf("%w: %w", sinks.ErrInvalidWriter, err)
	}
	return err
}

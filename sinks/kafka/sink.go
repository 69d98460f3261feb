package kafka

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/encoding"
	"kubecdc/sinks/kafka/internal/producer"
	"kubecdc/sinks/kafka/internal/recordbatch"
	"kubecdc/sinks/kafka/internal/registry"
)

// Kind describes the sink.
var Kind = sinks.Kind{Name: "kafka", CheckpointMayForget: true}

// Sink is the Kafka destination.
type Sink struct {
	cfg                     Config
	client                  *cluster.Client
	topics                  *topics
	codec                   recordbatch.Codec
	encodings               encoding.Set
	dataTopic, controlTopic topicPlan
	doubts                  *doubts
	strange                 sync.Map // kinds of records in the control topic that are none, and were warned of
}

var _ sinks.Sink = (*Sink)(nil)

// New validates the configuration. It does not connect; Open does.
func New(cfg Config) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("kafka settings: %w", err)
	}
	cfg.setDefaults()
	mechanism, err := cfg.SASL.mechanism()
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
	s := &Sink{cfg: cfg, codec: codec, dataTopic: dataTopic(cfg.History), controlTopic: controlTopic(cfg.History),
		doubts: newDoubts()}
	avro.Await, avro.LastKey = s.awaitSchemas, s.lastKey
	s.encodings = encoding.NewSet(avro)
	maps.Copy(s.dataTopic.config, cfg.TopicConfig)
	s.client = cluster.New(cluster.Options{
		Brokers: cfg.Brokers, ClientID: cfg.ClientID, Dial: cfg.dial, SASL: mechanism, RequestTimeout: cfg.RequestTimeout,
		ReplicationFactor: cfg.ReplicationFactor, Logger: cfg.Logger, Stuck: cfg.Observer.SinkStuck, Hint: cfg.hintFor,
	})
	s.topics = &topics{cfg: &s.cfg, client: s.client, known: map[string]*topicInfo{}, warned: map[string]string{}}
	return s, nil
}

// Close closes the connections.
func (s *Sink) Close() error {
	s.client.Close()
	return nil
}

// Open tests whether the log belongs to this cluster, fences the slot's earlier writers, and writes an "open" record to the
// control topic, up to which the tail is read.
func (s *Sink) Open(ctx context.Context, slot int, epoch int64, from sinks.Durable) (*sinks.Opened, error) {
	s.topics.forget()
	l, lost, err := s.open(ctx, slot, epoch, from)
	if err == nil {
		tail := func(ctx context.Context, visit func(*sinks.Recovered) error) error {
			return asLostTail(l.readTail(ctx, visit), lost)
		}
		opened := &sinks.Opened{Log: l, Tail: tail, Lost: lost}
		if l.after != nil {
			opened.Passed = l.after.reader.Records()
			if l.after.lost == nil {
				opened.Last = l.after.seq
			}
		}
		return opened, nil
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

func (s *Sink) open(
	ctx context.Context, slot int, epoch int64, from sinks.Durable,
) (l *slotLog, _ *sinks.LostTailError, err error) {
	if l, err = s.newLog(ctx, slot, epoch); err != nil {
		return nil, nil, err
	}
	if err := l.verify(ctx, from); err != nil {
		return l, nil, err
	}
	// Fencing an owner that was killed ends its transaction, and the markers of that would fill the offsets of lost records.
	lost, err := l.inspect(ctx, from.Offsets)
	if err != nil {
		return l, nil, err
	}
	l.expect(from.Offsets, lost)
	if from.New { // the lost checkpoint may have known the cluster by another of its ids
		for _, uid := range s.cfg.ClusterIDs {
			if _, err := l.newProducer(ctx, uid); err != nil {
				return l, nil, err
			}
		}
	}
	if l.producer, err = l.newProducer(ctx, s.cfg.ClusterUID); err != nil {
		return l, nil, err
	}
	lost, err = s.openLog(ctx, l, from, lost)
	return l, lost, err
}

func (s *Sink) newLog(ctx context.Context, slot int, epoch int64) (*slotLog, error) {
	envelope := change.Envelope{Cluster: s.cfg.Cluster, Prefix: s.cfg.TopicPrefix, Version: s.cfg.Version}
	l := &slotLog{
		sink: s, slot: slot, epoch: epoch, envelope: envelope, encoder: s.encodings[s.cfg.Encoding].NewEncoder(envelope),
		topics: map[string]*producer.Topic{}, streams: map[*change.Stream]*producer.Topic{}, stubs: map[int32]*stub{},
		ids: topicIDs{of: map[string]int64{}, told: map[string]bool{}, asked: time.Now()},
	}
	t, err := s.topic(ctx, l.topics, change.ControlTopic(s.cfg.TopicPrefix), s.controlTopic)
	if err != nil {
		return nil, err
	}
	l.control = t.Partitions[slot%len(t.Partitions)]
	return l, l.learnID(ctx, t.Name)
}

// openLog writes the open record and reads the tail up to it. With at-least-once delivery this record is what fences: the control
// partition now has the newer producer epoch, so no older writer can finish a batch.
func (s *Sink) openLog(
	ctx context.Context, l *slotLog, from sinks.Durable, lost *sinks.LostTailError,
) (_ *sinks.LostTailError, err error) {
	if l.openOffset, err = l.writeOpen(ctx, from.Seq); err != nil {
		return nil, fmt.Errorf("write the open record: %w", err)
	}
	if !from.New {
		if err := l.after.end(ctx); err != nil {
			return nil, err
		}
	}
	if l.after == nil || l.after.lost == nil {
		return lost, nil
	}
	return withTail(l.after.lost, lost), nil
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

// abort tries for 2 s to abort an open transaction, so that read_committed consumers do not wait for its timeout. One whose end was
// already requested is left to the coordinator.
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

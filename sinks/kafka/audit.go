package kafka

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/admin"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/producer"
	"kubecdc/sinks/kafka/internal/reader"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

var _ sinks.AuditLog = (*Sink)(nil)

// auditLog writes the audit topic. It knows only records that it has read in the topic, whoever wrote them. So each Write first
// reads the records that have come since the last one. If two replicas write the same event at the same moment, neither reads the
// other's record. Then readers drop the repeat. It has a separate client, so a slot never waits for it.
type auditLog struct {
	sink   *Sink
	client *cluster.Client
	topics *admin.Topics
	name   string
	id     string        // transactional id
	turn   chan struct{} // has an element during a write

	producer *producer.Producer // nil: the last write failed, or there was none
	topic    *producer.Topic
	next     map[int]int64 // offsets up to which the topic was read
	known    recent
}

func newAuditLog(s *Sink, o cluster.Options) *auditLog {
	o.Stuck = func(error) {} // it is not a slot's
	a := &auditLog{sink: s, client: cluster.New(o), name: change.AuditTopic(s.cfg.TopicPrefix), turn: make(chan struct{}, 1),
		id: s.cfg.TransactionalPrefix() + "audit-" + rand.Text()[:8], next: map[int]int64{},
		known: recent{index: map[audit.ID]int{}}}
	a.topics = admin.NewTopics(&s.cfg, a.client)
	return a
}

// WriteAudit implements sinks.AuditLog.
func (s *Sink) WriteAudit(ctx context.Context, records []audit.Record) error {
	a := s.audit
	if len(records) == 0 {
		return nil
	}
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return fmt.Errorf("write audit records to %s: %w", a.name, context.Cause(ctx))
	}
	err := a.write(ctx, records)
	if err != nil {
		a.producer = nil // its records may still arrive, so the next producer fences it first, and then reads
		a.topics.Forget()
		err = fmt.Errorf("write audit records to %s: %w", a.name, err)
	}
	return err
}

func (a *auditLog) write(ctx context.Context, records []audit.Record) (err error) {
	if err = a.open(ctx); err != nil {
		return err
	}
	if err = a.read(ctx); err != nil {
		return err
	}
	fresh := map[audit.ID]*producer.Partition{}
	for i := range records {
		if err = a.queue(&records[i], fresh); err != nil {
			return err
		}
	}
	active := slices.Collect(maps.Values(fresh))
	slices.SortFunc(active, func(a, b *producer.Partition) int { return cmp.Compare(a.Index, b.Index) })
	active = slices.Compact(active)
	if err = a.producer.Produce(ctx, active...); err != nil {
		return err
	}
	for _, q := range active {
		// If nobody else has written meanwhile, it need not be read back.
		if p := int(q.Index); q.First == a.next[p] && q.Last-q.First+1 == int64(q.Queued()) {
			a.next[p] = q.Last + 1
		}
	}
	for id := range fresh {
		a.known.add(id)
	}
	return nil
}

func (a *auditLog) open(ctx context.Context) (err error) {
	if a.producer != nil {
		for _, q := range a.topic.Partitions {
			q.Reset()
		}
		return nil
	}
	if a.topic, err = a.topics.Topic(ctx, map[string]*producer.Topic{}, a.name); err != nil {
		return err
	}
	p, err := producer.New(ctx, a.client, producer.Options{TransactionalID: a.id, Idempotent: true,
		Timeout: a.sink.cfg.TransactionTimeout,
		Codec:   a.sink.codec})
	if err == nil {
		a.producer = p
	}
	return err
}

// queue queues a record that is not in the topic, on the partition that its object has in the object's own topic.
func (a *auditLog) queue(r *audit.Record, fresh map[audit.ID]*producer.Partition) error {
	id, err := r.Key()
	if err != nil || a.known.has(id) || fresh[id] != nil {
		return err
	}
	value, err := json.Marshal(r)
	if len(value) > auditLimit {
		a.sink.cfg.Logger.Warn("an audit record is large: its groups, extra, addresses and user agent are left out", "audit_id",
			r.AuditID, "bytes", len(value))
		brief := *r
		brief.Groups, brief.Extra, brief.Addresses, brief.UserAgent = nil, nil, nil, ""
		value, err = json.Marshal(&brief)
	}
	if err != nil {
		return fmt.Errorf("encode audit record %s: %w", r.ID, err)
	}
	key := a.sink.log.Envelope.AppendKey(nil, &change.Change{Namespace: r.Namespace, Name: r.Name})
	q := a.topic.Partition(key)
	record := recordbatch.Record{Time: max(r.Received.UnixMilli(), time.Now().UnixMilli()), Key: key, Value: [][]byte{value}}
	recordbatch.AddHeader(&record.Headers, change.HeaderAudit, r.ID)
	q.QueueRecord(record)
	fresh[id] = q
	return nil
}

// auditLimit is the largest record with all details, in bytes: far less than a topic accepts.
const auditLimit = 128 << 10

// read reads what others have written. The first time it reads the end of the topic.
func (a *auditLog) read(ctx context.Context) error {
	starts, ends, err := a.client.Bounds(ctx, a.name)
	if err != nil {
		return err
	}
	for p, end := range ends {
		first, known := a.next[p]
		if !known || first > end { // if it was known, the topic was created again
			first = end - remembered/int64(len(ends))
		}
		first = max(first, starts[p])
		r := consumer.New(a.client, consumer.Range{Topic: a.name, Partition: int32(p), First: first, NoValues: true,
			Wanted: func(f *consumer.Record) bool {
				if id, ok := reader.AuditID(a.sink.log, f); ok {
					a.known.add(id)
				}
				return false
			}})
		if err := r.ReadTo(ctx, end-1); err != nil && !errors.Is(err, consumer.ErrGone) {
			return err
		}
		a.next[p] = end
	}
	return nil
}

// remembered is the number of last records that the auditLog remembers.
const remembered = 200_000

// recent is the set of the ids that were added last.
type recent struct {
	index map[audit.ID]int
	ring  []audit.ID
	n     int
}

func (r *recent) has(id audit.ID) bool {
	_, ok := r.index[id]
	return ok
}

func (r *recent) add(id audit.ID) {
	if r.has(id) {
		return
	}
	i := r.n % remembered
	if r.n++; i == len(r.ring) {
		r.ring = append(r.ring, id)
	} else {
		delete(r.index, r.ring[i])
		r.ring[i] = id
	}
	r.index[id] = i
}

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

// auditLog writes the audit topic. What it knows to be there it has read there, so it does not matter who has written it: each Write
// first reads what came since. Of two replicas that write the same event in the same instant neither reads the other's record: readers
// drop the repeat. It has a client of its own, so a slot never waits for it.
type auditLog struct {
	sink   *Sink
	client *cluster.Client
	topics *admin.Topics
	name   string
	id     string        // transactional
	turn   chan struct{} // has an element while somebody writes

	producer *producer.Producer // nil: the last write has failed, or none was made
	topic    *producer.Topic
	next     map[int]int64 // up to which offset the topic was read
	known    recent
}

func newAuditLog(s *Sink, o cluster.Options) *auditLog {
	o.Stuck = func(error) {} // no slot is
	a := &auditLog{sink: s, client: cluster.New(o), name: change.AuditTopic(s.cfg.TopicPrefix), turn: make(chan struct{}, 1),
		id: s.cfg.TransactionalPrefix() + "audit-" + rand.Text()[:8], next: map[int]int64{}, known: recent{at: map[audit.ID]int{}}}
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
		a.producer = nil // what it has sent may still arrive: the next one fences it, and then reads
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
		// Where nobody else has written meanwhile it need not be read back.
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
	p, err := producer.New(ctx, a.client, producer.Options{TransactionalID: a.id, Idempotent: true, Timeout: a.sink.cfg.TransactionTimeout,
		Codec: a.sink.codec})
	if err == nil {
		a.producer = p
	}
	return err
}

// queue queues a record that is not there, on the partition that has its object in the object's own topic.
func (a *auditLog) queue(r *audit.Record, fresh map[audit.ID]*producer.Partition) error {
	id, err := r.Key()
	if err != nil || a.known.has(id) || fresh[id] != nil {
		return err
	}
	value, err := json.Marshal(r)
	if len(value) > auditLimit {
		a.sink.cfg.Logger.Warn("an audit record is large: its groups, extra, addresses and user agent are left out", "audit_id", r.AuditID, "bytes", len(value))
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

// auditLimit is how large a record may be with everything: far less than a topic accepts.
const auditLimit = 128 << 10

// read reads what others have written; at first, the end of the topic.
func (a *auditLog) read(ctx context.Context) error {
	starts, ends, err := a.client.Bounds(ctx, a.name)
	if err != nil {
		return err
	}
	for p, end := range ends {
		first, known := a.next[p]
		if !known || first > end { // later: the topic was made again
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

// remembered is how many records are known to be there: those that came last.
const remembered = 200_000

// recent are the ids that were added last.
type recent struct {
	at   map[audit.ID]int
	ring []audit.ID
	n    int
}

func (r *recent) has(id audit.ID) bool {
	_, ok := r.at[id]
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
		delete(r.at, r.ring[i])
		r.ring[i] = id
	}
	r.at[id] = i
}

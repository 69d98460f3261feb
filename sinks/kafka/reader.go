package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/encoding"
)

// Reader is the sinks.Reader of the topics.
type Reader struct {
	sink     *Sink
	envelope change.Envelope

	mu     sync.Mutex
	owners map[int]owners // by slot; nil until they are needed
}

var _ sinks.Reader = (*Reader)(nil)

// OpenReader returns a reader of the topics that a sink of this configuration writes. ClusterUID may be empty.
func OpenReader(ctx context.Context, cfg Config) (*Reader, error) {
	cfg.readOnly = true
	s, err := New(cfg)
	if err != nil {
		return nil, err
	}
	r := &Reader{sink: s, envelope: change.Envelope{Cluster: s.cfg.Cluster, Prefix: s.cfg.TopicPrefix}}
	if err := s.Ping(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return r, nil
}

// Close closes the connections.
func (r *Reader) Close() error { return r.sink.Close() }

// Resources derives the ids from the names of the topics.
func (r *Reader) Resources(ctx context.Context) (ids []string, err error) {
	topics, err := r.topics(ctx, nil)
	for _, topic := range topics {
		ids = append(ids, strings.TrimPrefix(topic, r.envelope.Prefix+"."))
	}
	return ids, err
}

// topics names the existing data topics of some resources; of all, if there are none given. It asks a broker, since the client's
// own view of the cluster may lack new ones.
func (r *Reader) topics(ctx context.Context, resources []string) (topics []string, err error) {
	err = r.sink.client.Try(ctx, "list the topics "+r.envelope.Prefix+".*", func(ctx context.Context) error {
		all, err := r.sink.client.Describe(ctx, nil)
		for _, t := range all {
			topics = append(topics, t.Name)
		}
		return err
	})
	slices.Sort(topics)
	return slices.DeleteFunc(topics, func(topic string) bool { return !r.holds(topic, resources) }), err
}

// holds reports whether a topic has the changes of one of the resources. Snapshots on demand are read only if they are named.
func (r *Reader) holds(topic string, resources []string) bool {
	prefix := r.envelope.Prefix
	return strings.HasPrefix(topic, prefix+".") && topic != change.ControlTopic(prefix) && topic != change.DeadLetterTopic(prefix) &&
		(len(resources) == 0 && !change.IsSnapshotTopic(prefix, topic) || slices.ContainsFunc(resources, func(id string) bool {
			return change.TopicOf(prefix, change.StreamID(id)) == topic
		}))
}

// Changes reads the partitions up to a cut; with Follow, then batch by batch what follows.
func (r *Reader) Changes(ctx context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	to := q.To
	if to == nil {
		end, err := r.End(ctx)
		if err != nil {
			return err
		}
		to = &end
	}
	s := &scan{reader: r, Query: q, to: to, visit: visit}
	if q.Name != "" {
		s.key = r.envelope.AppendKey(nil, &change.Change{Namespace: q.Namespace, Name: q.Name})
	}
	err := s.run(ctx)
	if err != nil || !q.Follow {
		return err
	}
	return s.follow(ctx)
}

// finished reports whether the batch of a record has its batch record.
func (r *Reader) finished(ctx context.Context, l *sinks.Logged) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owners == nil {
		all := map[int]owners{}
		err := r.controls(ctx, nil, func(c *change.Control, _ position) error {
			if all[c.Slot] == nil {
				all[c.Slot] = owners{}
			}
			all[c.Slot].note(c)
			return nil
		})
		if err != nil {
			return false, err
		}
		r.owners = all
	}
	return r.owners[l.Slot].finished(l.Epoch, l.Batch), nil
}

// logged makes a change of a record's key and headers, and keeps it in the record's Data; nil if the record is none of the
// cluster's changes.
func (s *scan) logged(topic string, partition int32, f *consumer.Record) *sinks.Logged {
	id := change.StreamID(f.Headers[change.HeaderStream])
	op, _ := change.ParseOp(f.Headers[change.HeaderOp])
	if !isChange(f) {
		return nil
	}
	stream := s.stream(id)
	if change.Topic(s.reader.envelope.Prefix, stream.Resource) != topic {
		return nil
	}
	_, key, err := keyOf(s.reader.sink.encodings, f)
	if err != nil {
		s.failed = cmp.Or(s.failed, fmt.Errorf("%s/%d %w", topic, partition, err))
		return nil
	}
	if key.Cluster != s.reader.envelope.Cluster ||
		s.key != nil && (key.Namespace != s.Namespace || key.Name != s.Name) {
		return nil
	}
	l := &sinks.Logged{Logged: f.Time, DeadLetter: f.Headers[change.HeaderDeadLetter],
		Topic: topic, Partition: int(partition), Offset: f.Offset, Key: f.Key}
	l.Change = change.Change{Stream: stream, Op: op, Namespace: key.Namespace, Name: key.Name, UID: f.Headers[change.HeaderUID],
		ResourceVersion: change.ResourceVersion(f.Headers[change.HeaderResourceVersion]), Time: f.Time,
		Inferred: f.Headers[change.HeaderInferred] != "", Gap: f.Headers[change.HeaderGap]}
	l.Slot, _ = strconv.Atoi(f.Headers[change.HeaderSlot])
	l.Epoch, _ = strconv.ParseInt(f.Headers[change.HeaderEpoch], 10, 64)
	l.Batch, _ = strconv.ParseUint(f.Headers[change.HeaderBatch], 10, 64)
	for _, name := range f.Order {
		l.Headers = append(l.Headers, sinks.Header{Key: name, Value: f.Headers[name]})
	}
	f.Data = l
	return l
}

// matches reports whether the query selects the change, by all but the cuts.
func (s *scan) matches(l *sinks.Logged) bool {
	return (s.Namespace == "" || s.Namespace == l.Namespace) && (s.Name == "" || s.Name == l.Name) &&
		(s.Wanted == nil || s.Wanted(l))
}

// fill sets what the record's value has.
func (s *scan) fill(ctx context.Context, l *sinks.Logged, f *consumer.Record) error {
	if s.NoBodies {
		return nil
	}
	if l.Value = f.Value; f.Value == nil {
		return nil
	}
	e, err := s.reader.sink.encodings.Of(f.Headers)
	if err == nil {
		var d encoding.Decoded
		d, err = e.Decode(ctx, f.Value, f.Headers)
		l.Before, l.After, l.Told = d.Before, d.After, d.Told
		if d.JSON != nil {
			l.JSONKey, l.JSONValue = s.reader.envelope.AppendKey(nil, &l.Change), d.JSON
		}
	}
	if err != nil {
		err = fmt.Errorf("%s/%d offset %d: %w", l.Topic, l.Partition, l.Offset, err)
	}
	return err
}

// existing leaves out a topic that was deleted meanwhile.
func existing(ends map[int]int64, err error) (map[int]int64, error) {
	if cluster.NoTopic(err) {
		return nil, nil
	}
	return ends, err
}

// Package reader is the sinks.Reader of Kafka's topics, for commands. It finds cuts by time, and visits the changes that a query
// selects, from the start or as they arrive. It also finds out since when the topics have all changes. Package logread gives
// records their meaning. It needs only the right to read.
package reader

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/logread"
)

// Reader reads one log.
type Reader struct {
	*logread.Log
	created map[string]string // the settings with which the sink creates data topics
	all     *Reader           // reads all clusters, for copies

	mu     sync.Mutex
	owners logread.Owners // nil until they are needed

	auditing sync.Mutex
	audited  audited
}

// New returns a reader. It does not connect. created are the settings of data topics that the sink creates. The reader assumes
// them if it may not read a topic's settings.
func New(l *logread.Log, created map[string]string) *Reader {
	all := &logread.Log{Client: l.Client, Encodings: l.Encodings, Envelope: change.Envelope{Prefix: l.Envelope.Prefix}}
	return &Reader{Log: l, created: created, all: &Reader{Log: all, created: created}}
}

// Resources derives the ids from the names of the topics.
func (r *Reader) Resources(ctx context.Context) ([]string, error) {
	topics, err := r.topics(ctx, nil)
	return r.idsOf(topics), err
}

func (r *Reader) idsOf(topics []string) (ids []string) {
	for _, topic := range topics {
		ids = append(ids, strings.TrimPrefix(topic, r.Envelope.Prefix+"."))
	}
	return ids
}

// topics returns the existing data topics of some resources, or of all if there are none given.
func (r *Reader) topics(ctx context.Context, resources []string) ([]string, error) {
	topics, err := r.Topics(ctx)
	return slices.DeleteFunc(topics, func(topic string) bool { return !r.holds(topic, resources) }), err
}

// holds reports whether a topic has changes of one of the resources. Snapshots on demand are read only if they are named.
func (r *Reader) holds(topic string, resources []string) bool {
	prefix := r.Envelope.Prefix
	return r.IsData(topic) &&
		(len(resources) == 0 && !change.IsSnapshotTopic(prefix, topic) || slices.ContainsFunc(resources, func(id string) bool {
			return change.TopicOf(prefix, change.StreamID(id)) == topic
		}))
}

func (r *Reader) FindsObjects() bool { return false }

// Changes reads the partitions up to a cut. With Follow it then reads later changes batch by batch.
func (r *Reader) Changes(ctx context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	if q.Each != sinks.All || q.Keys != nil {
		return errors.ErrUnsupported
	}
	if q.To == nil {
		end, err := r.CutAt(ctx, time.Time{})
		if err != nil {
			return err
		}
		q.To = &end
	}
	s := &scan{Query: q, reader: r, visit: visit}
	if q.Name != "" && q.Namespace != "" {
		s.key = r.Envelope.AppendKey(nil, &change.Change{Namespace: q.Namespace, Name: q.Name})
	}
	err := s.run(ctx)
	if err != nil || !q.Follow {
		return err
	}
	return s.follow(ctx)
}

// finished reports whether the batch of a change has its batch record.
func (r *Reader) finished(ctx context.Context, l *sinks.Logged) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owners == nil {
		all := logread.Owners{}
		err := r.controls(ctx, nil, func(c logread.Control) error {
			all.Add(c.Control)
			return nil
		})
		if err != nil {
			return false, err
		}
		r.owners = all
	}
	return r.owners.Finished(l), nil
}

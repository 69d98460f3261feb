package reader

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/logread"
)

// AuditID returns the id of an audit record of the log.
func AuditID(l *logread.Log, f *consumer.Record) (id audit.ID, ok bool) {
	nobody := l.Envelope.AppendKey(nil, &change.Change{})
	own := bytes.TrimSuffix(nobody, []byte(`"","name":""}`))
	if l.Envelope.Cluster == "" {
		own = []byte(`{"cluster":"`)
	}
	if !bytes.HasPrefix(f.Key, own) {
		return id, false
	}
	id, err := (&audit.Record{ID: f.Headers[change.HeaderAudit]}).Key()
	return id, err == nil
}

// Audits reads the ids of new records, then the records of the query.
func (r *Reader) Audits(ctx context.Context, q audit.Query, visit func(*audit.Record) error) (audit.Coverage, error) {
	coverage, err := r.auditCoverage(ctx)
	if err == nil && !coverage.Since.IsZero() {
		err = r.audits(ctx, q, visit)
	}
	return coverage, err
}

// audits reads one partition after another. A repeated record is on the partition of the first.
func (r *Reader) audits(ctx context.Context, q audit.Query, visit func(*audit.Record) error) error {
	topic := change.AuditTopic(r.Envelope.Prefix)
	firsts, ends, err := r.Client.Bounds(ctx, topic)
	if err == nil && !q.Since.IsZero() {
		firsts, err = r.Client.Since(ctx, topic, q.Since)
	}
	if err != nil {
		return err
	}
	return r.auditsFrom(ctx, q, firsts, ends, visit)
}

func (r *Reader) auditsFrom(ctx context.Context, q audit.Query, firsts, ends map[int]int64,
	visit func(*audit.Record) error) error {
	for p, end := range ends {
		first, known := firsts[p]
		if !known || first < 0 {
			continue
		}
		seen := map[audit.ID]bool{}
		reader := consumer.New(r.Client, consumer.Range{Topic: change.AuditTopic(r.Envelope.Prefix), Partition: int32(p),
			First: first,
			Wanted: func(f *consumer.Record) bool {
				id, ok := AuditID(r.Log, f)
				ok = ok && !seen[id] && mayBeOf(q.Name, f.Key)
				if ok {
					seen[id] = true
				}
				return ok
			},
			Visit: func(f consumer.Record) error {
				record, err := decodeAudit(&f)
				if r.Envelope.Cluster == "" && json.Unmarshal(f.Key, &struct{ Cluster *string }{&record.Cluster}) != nil {
					return nil // another program's
				}
				if err != nil || !selects(&q, record) {
					return err
				}
				return visit(record)
			}})
		if err := reader.ReadTo(ctx, end-1); err != nil {
			return lost(err)
		}
	}
	return nil
}

// mayBeOf reports whether a key may belong to an object with this name, or to a request without a name. An empty name matches
// all.
func mayBeOf(name string, key []byte) bool {
	named := func(name string) bool {
		return bytes.HasSuffix(key, append(change.AppendString([]byte(`,"name":`), name), '}'))
	}
	return name == "" || named(name) || named("")
}

func decodeAudit(f *consumer.Record) (*audit.Record, error) {
	err := change.CheckVersion(f.Headers[change.HeaderVersion])
	record := &audit.Record{}
	if err == nil {
		err = json.Unmarshal(f.Value, record)
	}
	if err != nil {
		err = fmt.Errorf("decode the audit record at offset %d: %w", f.Offset, err)
	}
	return record, err
}

func selects(q *audit.Query, r *audit.Record) bool {
	return (len(q.Resources) == 0 || slices.Contains(q.Resources, r.Resource)) &&
		(q.Namespace == "" || q.Namespace == r.Namespace) &&
		(q.Name == "" || r.Name == "" || q.Name == r.Name) && !r.Received.Before(q.Since)
}

// auditCoverage reads the ids, which begin with the times, since records come in any order. It remembers how far it has read, and
// begins again once retention has removed some.
func (r *Reader) auditCoverage(ctx context.Context) (audit.Coverage, error) {
	r.auditing.Lock()
	defer r.auditing.Unlock()
	topic := change.AuditTopic(r.Envelope.Prefix)
	starts, ends, err := r.Client.Bounds(ctx, topic)
	if !maps.Equal(starts, r.audited.starts) {
		r.audited = audited{starts: starts, next: maps.Clone(starts)}
	}
	for p, end := range ends {
		reader := consumer.New(r.Client, consumer.Range{Topic: topic, Partition: int32(p), First: r.audited.next[p],
			NoValues: true,
			Wanted: func(f *consumer.Record) bool {
				if id, ok := AuditID(r.Log, f); ok {
					r.audited.Add(id)
				}
				return false
			}})
		if err == nil && r.audited.next[p] < end {
			if err = reader.ReadTo(ctx, end-1); err == nil {
				r.audited.next[p] = end
			}
		}
	}
	if errors.Is(err, consumer.ErrGone) {
		err = nil // they have just been removed
	}
	return r.audited.Coverage, err
}

// audited is the result of reading the ids of audit records.
type audited struct {
	audit.Coverage
	starts, next map[int]int64
}

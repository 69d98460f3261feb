package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"time"

	"kubecdc/audit"
	"kubecdc/sinks"
)

var _ sinks.AuditLog = (*Sink)(nil)

// WriteAudit writes records in one transaction. It takes turns with the slots' batches, for milliseconds each time.
func (s *Sink) WriteAudit(ctx context.Context, records []audit.Record) error {
	return s.file.Fail("write audit records", s.inTx(ctx, func(t *tx) error {
		writers := map[string]*auditWriter{}
		for i := range records {
			name := cmp.Or(records[i].Cluster, s.Cluster)
			if writers[name] == nil {
				cluster, err := s.bind(t, name)
				if err != nil {
					return err
				}
				writers[name] = &auditWriter{t, cluster, map[string]int64{}, map[string]int64{}}
			}
			if err := writers[name].add(&records[i]); err != nil {
				return err
			}
		}
		return nil
	}))
}

// auditWriter writes the records of a cluster, in one transaction.
type auditWriter struct {
	*tx
	cluster               int64
	requesters, resources map[string]int64
}

func (w *auditWriter) add(r *audit.Record) error {
	id, err := r.Key()
	if err != nil {
		return err
	}
	requester, err := w.idOf(w.requesters, addRequester, requesterOf(r), r.Who())
	if err != nil {
		return err
	}
	resource, err := w.idOf(w.resources, addResource, r.Resource, w.cluster)
	if err != nil {
		return err
	}
	_, err = w.run(addAudit, id[:], requester, r.Received.UnixMicro(), r.Time.UnixMicro(), r.Answered.UnixMicro(), resource,
		r.Namespace, r.Name,
		r.UID, storedVersion(r.VersionBefore), storedVersion(r.VersionAfter), r.Created, r.Verb, r.Subresource, r.Code, restOf(r))
	return err
}

// idOf returns the id of a row that a table has once. It adds the row if it is missing.
func (w *auditWriter) idOf(known map[string]int64, add statement, text string, value any) (id int64, err error) {
	id, ok := known[text]
	if !ok {
		err = w.find(add, []any{value, text}, &id)
		known[text] = id
	}
	return id, err
}

// requesterOf and restOf are records of some of the members.
func requesterOf(r *audit.Record) string {
	return members(&audit.Record{User: r.User, Groups: r.Groups, Impersonated: r.Impersonated, Extra: r.Extra,
		UserAgent: r.UserAgent, Addresses: r.Addresses})
}

func restOf(r *audit.Record) string {
	return members(&audit.Record{AuditID: r.AuditID, Effect: r.Effect, Manager: r.Manager, Labels: r.Labels, Fields: r.Fields,
		Retried:      r.Retried,
		VersionBegan: r.VersionBegan})
}

func members(r *audit.Record) string {
	text, _ := json.Marshal(r) // strings only: can't fail
	return string(text)
}

// Audits reads page by page, in the order in which the records arrived. If a name is given, it uses the name's index.
func (r *Reader) Audits(ctx context.Context, q audit.Query, visit func(*audit.Record) error) (audit.Coverage, error) {
	coverage, err := r.auditCoverage(ctx)
	if err == nil && !coverage.Since.IsZero() {
		err = r.audits(ctx, q, visit)
	}
	return coverage, err
}

func (r *Reader) audits(ctx context.Context, q audit.Query, visit func(*audit.Record) error) error {
	from, err := r.firstAudit(ctx, q.Since)
	if err != nil {
		return r.fail("find the first audit record", err)
	}
	if q.Name == "" {
		return r.auditPages(ctx, &q, from, `and (?2 = 'null' or r.resource in (select value from json_each(?2)))`,
			list(q.Resources), visit)
	}
	ids, err := column[int64](ctx, r.db, `select r.id `+selected, r.cluster, list(q.Resources))
	if err != nil {
		return err
	}
	for _, id := range ids {
		for _, name := range []string{q.Name, ""} {
			if err := r.auditPages(ctx, &q, from, `and a.resource = ?2 and a.name = ?6`, id, visit, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// firstAudit returns the number of the first record that was received at a time or later. Some records after it are older, since
// writers take turns.
func (r *Reader) firstAudit(ctx context.Context, since time.Time) (n int64, err error) {
	if since.IsZero() {
		return 0, nil
	}
	const query = `select coalesce(min(n), 1 << 62) from log_audit where received >= ?`
	err = r.file.DB().QueryRowContext(ctx, query, since.UnixMicro()).Scan(&n)
	return n, err
}

func (r *Reader) auditPages(
	ctx context.Context, q *audit.Query, from int64, where string, value any, visit func(*audit.Record) error, more ...any,
) error {
	query := `select a.n, a.id, a.received, a.time, a.answered, r.resource, a.namespace, a.name, a.uid, a.before, a.after, a.created, a.verb,
		a.subresource, a.code, a.rest, q.told
		from log_audit a cross join log_resources r on r.id = a.resource join log_clusters k on k.id = r.cluster
		join log_requesters q on q.id = a.requester
		where k.cluster = ?1 and a.n >= ?3 and a.received >= ?4 and (?5 = '' or a.namespace = ?5) ` + where + `
		order by a.n limit ` + auditPage
	since := int64(0)
	if !q.Since.IsZero() {
		since = q.Since.UnixMicro()
	}
	for {
		var page []audit.Record
		args := append([]any{r.cluster, value, from, since, q.Namespace}, more...)
		err := each(ctx, r.db, query, args, func(rows *sql.Rows) error {
			var record audit.Record
			n, err := scanAudit(rows, &record)
			page, from = append(page, record), n+1
			return err
		})
		if err != nil {
			return r.fail("read the audit records", err)
		}
		if len(page) == 0 {
			return nil
		}
		for i := range page {
			if err := visit(&page[i]); err != nil {
				return err
			}
		}
	}
}

// auditPage is how many records one statement reads.
const auditPage = `1000`

func scanAudit(rows *sql.Rows, r *audit.Record) (n int64, err error) {
	var id, rest, requester []byte
	var received, asked, answered int64
	if err := rows.Scan(&n, &id, &received, &asked, &answered, &r.Resource, &r.Namespace, &r.Name, &r.UID,
		(*string)(&r.VersionBefore), (*string)(&r.VersionAfter),
		&r.Created, &r.Verb, &r.Subresource, &r.Code, &rest, &requester); err != nil {
		return 0, err
	}
	r.ID, r.Received = hex.EncodeToString(id), time.UnixMicro(received).UTC()
	r.Time, r.Answered = time.UnixMicro(asked).UTC(), time.UnixMicro(answered).UTC()
	return n, cmp.Or(json.Unmarshal(rest, r), json.Unmarshal(requester, r))
}

// auditCoverage finds the first and the last id of the cluster. Ids begin with the times.
func (r *Reader) auditCoverage(ctx context.Context) (c audit.Coverage, err error) {
	const query = `with its as (select r.id from log_resources r join log_clusters k on k.id = r.cluster and k.cluster = ?
			where exists (select 1 from log_audit where resource = r.id)), -- the plus makes SQLite read in the order of the ids
		audited as not materialized (select id from log_audit where +resource in its)
		select (select id from audited order by id limit 1), (select id from audited order by id desc limit 1) from its limit 1`
	err = each(ctx, r.db, query, []any{r.cluster}, func(rows *sql.Rows) error {
		var first, last []byte
		if err := rows.Scan(&first, &last); err != nil {
			return err
		}
		c.Add(audit.ID(first))
		c.Add(audit.ID(last))
		return nil
	})
	return c, r.fail("find out of which time there are audit records", err)
}

// removeAudit removes the records that were received before the history begins, and requesters that have no record left.
func (s *Sink) removeAudit(ctx context.Context, since int64) error {
	const query = `select coalesce((select n from log_audit where received >= ? order by received limit 1) - 1, (select max(n) from log_audit), 0)`
	var to int64
	if err := s.file.DB().QueryRowContext(ctx, query, since*1000).Scan(&to); err != nil {
		return err
	}
	if err := s.removeFrom(ctx, removal{"log_audit", "n", "true"}, to); err != nil {
		return err
	}
	const unused = `not exists (select 1 from log_audit where requester = log_requesters.id)`
	return s.removeFrom(ctx, removal{"log_requesters", "id", unused}, 1<<62)
}

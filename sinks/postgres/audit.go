package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/audit"
	"kubecdc/internal/pgdb"
	"kubecdc/sinks"
)

var _ sinks.AuditLog = (*Sink)(nil)

const addAudit = `insert into kubecdc_log.audit select $1, r.* from unnest($2::text[], $3::timestamptz[], $4::timestamptz[], $5::text[], $6::text[],
	$7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::int[], $14::text[]::json[]) r on conflict do nothing`

// WriteAudit is one statement. It adds rows in the order of their ids, so that two replicas can't deadlock.
func (s *Sink) WriteAudit(ctx context.Context, records []audit.Record) error {
	if len(records) == 0 {
		return nil
	}
	records = slices.SortedFunc(slices.Values(records), func(a, b audit.Record) int { return cmp.Compare(a.ID, b.ID) })
	texts := make([][]string, 10)
	var received, asked []time.Time
	var codes []int32
	bytes := 0
	for i := range records {
		r := &records[i]
		record, err := json.Marshal(r)
		if err != nil {
			return err
		}
		for n, text := range []string{r.ID, r.Resource, r.Namespace, r.Name, r.UID, string(r.VersionBefore),
			string(r.VersionAfter), r.Who(), r.Verb} {
			texts[n] = append(texts[n], pgdb.Escape(text))
		}
		texts[9] = append(texts[9], string(record))
		received, asked, codes = append(received, r.Received), append(asked, r.Time), append(codes, int32(r.Code))
		bytes += 2 * len(record)
	}
	err := s.db.WithDeadline(ctx, bytes, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
			if err := s.bindCluster(ctx, tx); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, addAudit, s.cluster, texts[0], received, asked, texts[1], texts[2], texts[3], texts[4],
				texts[5], texts[6],
				texts[7], texts[8], codes, texts[9])
			return err
		})
	})
	return s.db.Fail("write audit records", err)
}

// historyBegins is when the history of all clusters begins, or null if the history of one is not limited.
const historyBegins = `(select case when count(*) = count(history) then kubecdc_log.clock() - max(history) end from kubecdc_log.clusters)`

// dropAudit removes records that are older than the history of all clusters, a limited number at a time.
func (s *Sink) dropAudit(ctx context.Context) error {
	const drop = `delete from kubecdc_log.audit where ctid = any(array(select ctid from kubecdc_log.audit where received < ` +
		historyBegins + ` limit 5000))`
	for {
		done, err := s.db.Exec(ctx, drop)
		if err != nil || done.RowsAffected() == 0 {
			return err
		}
	}
}

// Audits implements sinks.Reader.
func (r *Reader) Audits(ctx context.Context, q audit.Query, visit func(*audit.Record) error) (audit.Coverage, error) {
	coverage, err := r.auditCoverage(ctx)
	if err != nil || coverage.Since.IsZero() {
		return coverage, err
	}
	const query = `select record from kubecdc_log.audit where cluster = $1 and ($2::text[] is null or resource = any($2))
		and ($3 = '' or namespace = $3) and ($4 = '' or name in ($4, '')) and received >= $5`
	var text []byte
	args := []any{r.cluster, q.Resources, q.Namespace, q.Name, q.Since}
	return coverage, r.db.Each(ctx, "read the audit records", query, args, []any{&text}, func() error {
		var record audit.Record
		if err := json.Unmarshal(text, &record); err != nil {
			return err
		}
		return visit(&record)
	})
}

// auditCoverage finds the first and the last id. Ids begin with the times.
func (r *Reader) auditCoverage(ctx context.Context) (c audit.Coverage, err error) {
	var first, last *string
	const query = `select min(id), max(id) from kubecdc_log.audit where cluster = $1`
	err = pgdb.Querier{DB: r.db}.Row(ctx, query, []any{r.cluster}, &first, &last)
	for _, text := range []*string{first, last} {
		if err == nil && text != nil {
			var id audit.ID
			id, err = (&audit.Record{ID: *text}).Key()
			c.Add(id)
		}
	}
	return c, r.db.Fail("find out of which time there are audit records", err)
}

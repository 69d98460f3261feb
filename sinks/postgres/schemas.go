package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/internal/pgdb"
	"kubecdc/sinks"
)

var (
	_ sinks.SchemaLog    = (*Sink)(nil)
	_ sinks.SchemaReader = (*Reader)(nil)
)

// SchemaHashes implements sinks.SchemaLog.
func (s *Sink) SchemaHashes(ctx context.Context) (map[string]string, error) {
	const query = `select distinct on (path) path, hash from kubecdc_log.schemas where cluster = $1 order by path, since desc`
	hashes := map[string]string{}
	var path, hash string
	err := s.db.Each(ctx, "read the hashes of the schemas", query, []any{s.cluster}, []any{&path, &hash}, func() error {
		hashes[path] = hash
		return nil
	})
	return hashes, err
}

// WriteSchema implements sinks.SchemaLog.
func (s *Sink) WriteSchema(ctx context.Context, schema *sinks.Schema) error {
	const insert = `insert into kubecdc_log.schemas select $1, $2, greatest($3, max(since) + interval '1 microsecond'), $4, $5
		from kubecdc_log.schemas where cluster = $1 and path = $2 having $4 is distinct from
		(select hash from kubecdc_log.schemas where cluster = $1 and path = $2 order by since desc limit 1) on conflict do nothing`
	err := s.db.WithDeadline(ctx, len(schema.Document), func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
			if err := s.bindCluster(ctx, tx); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, insert, s.cluster, schema.Path, schema.Since, schema.Hash, schema.Document)
			return err
		})
	})
	return s.db.Fail("write a schema", err)
}

// Schema implements sinks.SchemaReader.
func (r *Reader) Schema(ctx context.Context, path string, moment time.Time) (document []byte, err error) {
	const query = `select document from kubecdc_log.schemas where cluster = $1 and path = $2
		order by since > $3, abs(extract(epoch from since - $3)) limit 1`
	err = pgdb.Querier{DB: r.db}.Row(ctx, query, []any{r.cluster, path, moment}, &document)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return document, r.db.Fail("read a schema", err)
}

// dropSchemas removes the schemas that others had replaced when the history of all clusters begins.
func (s *Sink) dropSchemas(ctx context.Context) error {
	const drop = `delete from kubecdc_log.schemas s where exists (select 1 from kubecdc_log.schemas later where later.cluster = s.cluster
		and later.path = s.path and later.since > s.since and later.since < ` + historyBegins + `)`
	_, err := s.db.Exec(ctx, drop)
	return err
}

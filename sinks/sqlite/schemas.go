package sqlite

import (
	"context"
	"database/sql"
	"time"

	"kubecdc/sinks"
)

var (
	_ sinks.SchemaLog    = (*Sink)(nil)
	_ sinks.SchemaReader = (*Reader)(nil)
)

// SchemaHashes implements sinks.SchemaLog.
func (s *Sink) SchemaHashes(ctx context.Context) (map[string]string, error) {
	const query = `select path, hash, max(since) from log_schemas where cluster = (select id from log_clusters where cluster = ?) group by path`
	hashes := map[string]string{}
	err := each(ctx, s.file.DB(), query, []any{s.Cluster}, func(rows *sql.Rows) error {
		var path, hash string
		var since int64
		err := rows.Scan(&path, &hash, &since)
		hashes[path] = hash
		return err
	})
	return hashes, s.file.Fail("read the hashes of the schemas", err)
}

// WriteSchema implements sinks.SchemaLog.
func (s *Sink) WriteSchema(ctx context.Context, schema *sinks.Schema) error {
	const insert = `insert into log_schemas select ?1, ?2, max(?3, coalesce(max(since) + 1, 0)), ?4, ?5 from log_schemas where cluster = ?1 and path = ?2
		having ?4 is not (select hash from log_schemas where cluster = ?1 and path = ?2 order by since desc limit 1)`
	return s.file.Fail("write a schema", s.inTx(ctx, func(t *tx) error {
		cluster, err := s.bind(t, s.Cluster)
		if err != nil {
			return err
		}
		return t.do(insert, cluster, schema.Path, schema.Since.UnixMicro(), schema.Hash, schema.Document)
	}))
}

// Schema implements sinks.SchemaReader.
func (r *Reader) Schema(ctx context.Context, path string, moment time.Time) ([]byte, error) {
	const query = `select document from log_schemas where cluster = (select id from log_clusters where cluster = ?1) and path = ?2
		order by since > ?3, abs(since - ?3) limit 1`
	found, err := column[[]byte](ctx, r.db, query, r.cluster, path, moment.UnixMicro())
	if err != nil || len(found) == 0 {
		return nil, r.fail("read a schema", err)
	}
	return found[0], nil
}

// removeSchemas removes the schemas that others had replaced when the history begins.
func (s *Sink) removeSchemas(ctx context.Context, since int64) error {
	return s.inTx(ctx, func(t *tx) error {
		return t.do(`delete from log_schemas where exists (select 1 from log_schemas later where later.cluster = log_schemas.cluster
			and later.path = log_schemas.path and later.since > log_schemas.since and later.since <= ?)`, since*1000)
	})
}

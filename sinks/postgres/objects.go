package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/internal/pgdb"
	"kubecdc/sinks"
)

var _ sinks.TableReader = (*Reader)(nil)

// Objects reads the table objects.
func (r *Reader) Objects(ctx context.Context, of *change.Resource, noBodies bool, visit func(*sinks.Logged)) error {
	const look = `select namespace, name, uid, resource_version, stream, case when $4 then null else body end from kubecdc_log.objects
		where cluster = $1 and api_group = $2 and resource = $3`
	rows, err := r.db.Query(ctx, look, r.cluster, of.Group, of.Plural, noBodies)
	if err != nil {
		return r.db.Fail("read the table objects", err)
	}
	var l sinks.Logged
	var stream change.StreamID
	streams := map[change.StreamID]*change.Stream{}
	_, err = pgx.ForEachRow(rows, []any{&l.Namespace, pgdb.Unescaped(&l.Name), pgdb.Unescaped(&l.UID), &l.ResourceVersion, &stream,
		(*body)(&l.After)}, func() error {
		if streams[stream] == nil {
			streams[stream] = change.ParseStream(stream)
		}
		l.Stream = streams[stream]
		visit(&l)
		return nil
	})
	return r.db.Fail("read the table objects", err)
}

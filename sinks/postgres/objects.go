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
func (r *Reader) Objects(ctx context.Context, s *change.Stream, visit func(key, uid string, version change.ResourceVersion)) error {
	const look = `select namespace, name, uid, resource_version from kubecdc_log.objects
		where cluster = $1 and api_group = $2 and resource = $3 and stream = $4`
	rows, err := r.db.Query(ctx, look, r.cluster, s.Resource.Group, s.Resource.Plural, string(s.ID()))
	if err != nil {
		return r.db.Fail("read the table objects", err)
	}
	var namespace, name, uid string
	var version change.ResourceVersion
	_, err = pgx.ForEachRow(rows, []any{&namespace, pgdb.Unescaped(&name), pgdb.Unescaped(&uid), &version}, func() error {
		visit(change.ObjectKey(namespace, name), uid, version)
		return nil
	})
	return r.db.Fail("read the table objects", err)
}

package postgres

import (
	"context"

	"kubecdc/change"
	"kubecdc/sinks"
)

var _ sinks.TableReader = (*Reader)(nil)

// Objects reads the table objects.
func (r *Reader) Objects(ctx context.Context, of *change.Resource, noBodies bool, visit func(*sinks.Logged)) error {
	const look = `select namespace, name, uid, resource_version, stream, case when $4 then null else body end from kubecdc_log.objects
		where cluster = $1 and api_group = $2 and resource = $3`
	var l sinks.Logged
	var stream change.StreamID
	streams := map[change.StreamID]*change.Stream{}
	return r.db.Each(ctx, "read the table objects", look, []any{r.cluster, of.Group, of.Plural, noBodies},
		[]any{&l.Namespace, &l.Name, &l.UID, &l.ResourceVersion, &stream, &l.After}, func() error {
			if streams[stream] == nil {
				streams[stream] = change.ParseStream(stream)
			}
			l.Stream = streams[stream]
			visit(&l)
			return nil
		})
}

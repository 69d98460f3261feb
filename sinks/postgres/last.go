package postgres

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/internal/wait"
	"kubecdc/sinks"
)

// changeKey is the key of a change.
type changeKey struct {
	slot, n      int
	epoch, batch int64
	written      time.Time
}

const (
	lastAtOnce = 1000
	// clocksDiffer is by how much the exporter's clock may be ahead of the database's. If an object's last change was observed so
	// long after the oldest partition began, the change is in that partition or in a later one.
	clocksDiffer = time.Hour
)

// last reads the partitions, the oldest first. In each one, the database finds every name's last change, without its states. So
// the amount of data depends on the number of objects and not on the number of changes. The states of the living objects are then
// read by key.
func (s *scan) last(ctx context.Context) error {
	since, err := s.reader.retainedSince(ctx)
	if err != nil {
		return err
	}
	resources := s.Resources
	if len(resources) == 0 {
		if resources, err = s.reader.Resources(ctx); err != nil {
			return err
		}
	}
	s.images = lastImage
	for _, id := range resources {
		living, err := s.reader.living(ctx, id)
		if err != nil {
			return err
		}
		for page := range slices.Chunk(living, lastAtOnce) {
			if err := s.byKeys(ctx, page); err != nil {
				return err
			}
		}
	}
	visit := s.visit
	s.visit = func(l *sinks.Logged) error {
		if l.Time.Before(since.Add(clocksDiffer)) {
			return visit(l)
		}
		return nil
	}
	if err := s.unchanged(ctx); err != nil {
		return err
	}
	if !s.since.Equal(since) {
		return errDropped
	}
	return nil
}

// living returns the last changes of a resource's objects, except of those that a change has deleted, in the order of the log.
func (r *Reader) living(ctx context.Context, resource string) ([]changeKey, error) {
	const query = `select distinct on (namespace, name) * from (
			select distinct on (c.namespace, c.name, c.slot) c.namespace, c.name, c.slot, c.epoch, c.batch, c.n, c.written, c.op
				from kubecdc_log.changes c
			where c.cluster = $1 and c.api_group = $2 and c.resource = $3 and c.written >= $4 and c.written < $5
			order by c.namespace, c.name, c.slot, c.epoch desc, c.batch desc, c.n desc) of_slots
		order by namespace, name, written desc`
	partitions, err := r.partitions(ctx)
	if err != nil {
		return nil, err
	}
	plural, group, _ := strings.Cut(resource, ".")
	live := map[[2]string]changeKey{}
	for _, p := range partitions {
		var name [2]string
		var k changeKey
		var op string
		began := time.Now()
		err := r.db.Each(ctx, "find the last changes of objects", query, []any{r.cluster, group, plural, p[0], p[1]},
			[]any{&name[0], &name[1], &k.slot, &k.epoch, &k.batch, &k.n, &k.written, &op}, func() error {
				if op == change.Delete.String() {
					delete(live, name)
				} else {
					live[name] = k
				}
				return nil
			})
		if err == nil {
			err = wait.For(ctx, time.Since(began)) // leaves half of the time to others
		}
		if err != nil {
			return nil, err
		}
	}
	return slices.SortedFunc(maps.Values(live), func(a, b changeKey) int {
		return cmp.Or(a.written.Compare(b.written), cmp.Compare(a.slot, b.slot), cmp.Compare(a.batch, b.batch),
			cmp.Compare(a.n, b.n))
	}), nil
}

// partitions returns the time ranges of the partitions of changes, the oldest first.
func (r *Reader) partitions(ctx context.Context) (all [][2]time.Time, err error) {
	const query = `select lower, upper from kubecdc_log.partitions where parent = 'changes' and lower is not null order by lower`
	var p [2]time.Time
	err = r.db.Each(ctx, "list the partitions of the log", query, nil, []any{&p[0], &p[1]}, func() error {
		all = append(all, p)
		return nil
	})
	return all, err
}

// byKeys visits the changes with some keys.
func (s *scan) byKeys(ctx context.Context, keys []changeKey) error {
	const from = ` from unnest($2::int[], $3::bigint[], $4::bigint[], $5::int[], $6::timestamptz[]) as g (slot, epoch, batch, n, written)
		cross join lateral (select * from kubecdc_log.changes where (cluster, slot, epoch, batch, n, written) =
			($1, g.slot, g.epoch, g.batch, g.n, g.written) limit 1) c where true`
	var slots, ns []int
	var epochs, batches []int64
	var written []time.Time
	for _, k := range keys {
		slots, ns, epochs, batches, written = append(slots, k.slot), append(ns, k.n), append(epochs, k.epoch), append(batches,
			k.batch),
			append(written, k.written)
	}
	return s.rows(ctx, from, "", []any{s.reader.cluster, slots, epochs, batches, ns, written}, nil)
}

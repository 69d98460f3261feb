package postgres

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/internal/wait"
	"kubecdc/sinks"
)

// lastChange is where an object's last change is, and what it says besides the state.
type lastChange struct {
	slot, n         int
	epoch, batch    int64
	written         time.Time
	uid             string
	version         change.ResourceVersion
	stream          change.StreamID
	namespace, name string
}

// Last implements sinks.LastReader. It goes from partition to partition, the oldest first. Of each the database finds the last change of
// every name, without its states: what is transferred and held grows with the objects, and not with the changes. The states of those that
// live are then read by key.
func (r *Reader) Last(ctx context.Context, of *change.Resource, noBodies bool, visit func(*sinks.Logged)) error {
	since, err := r.KeptSince(ctx, "")
	if err != nil {
		return err
	}
	living, err := r.living(ctx, of)
	if err != nil {
		return err
	}
	parsed := streams{}
	for page := range slices.Chunk(living, lastAtOnce) {
		if err := r.states(ctx, page, noBodies, parsed, visit); err != nil {
			return err
		}
	}
	s := &scan{reader: r, Query: sinks.Query{Resources: []string{of.ID()}, NoBodies: noBodies}, streams: parsed}
	s.visit = func(l *sinks.Logged) error {
		if l.Time.Before(since.Add(clocksDiffer)) {
			visit(l)
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

const (
	lastAtOnce = 1000
	// clocksDiffer is by how much the exporter's clock may be ahead of the database's. An object that was seen to change so long after the
	// oldest partition began has a change there, or in a later one.
	clocksDiffer = time.Hour
)

// living are the last changes of the objects of a resource that the changes do not say are deleted, in the order of the log.
func (r *Reader) living(ctx context.Context, of *change.Resource) ([]lastChange, error) {
	const look = `select distinct on (namespace, name) * from (
			select distinct on (c.namespace, c.name, c.slot) c.namespace, c.name, c.slot, c.epoch, c.batch, c.n, c.written, c.op, c.uid,
				c.resource_version, c.stream from kubecdc_log.changes c
			where c.cluster = $1 and c.api_group = $2 and c.resource = $3 and c.written >= $4 and c.written < $5
			order by c.namespace, c.name, c.slot, c.epoch desc, c.batch desc, c.n desc) of_slots
		order by namespace, name, written desc`
	partitions, err := r.partitions(ctx)
	if err != nil {
		return nil, err
	}
	live := map[[2]string]lastChange{}
	for _, p := range partitions {
		var l lastChange
		var op string
		began := time.Now()
		err := r.db.Each(ctx, "find the last changes of objects", look, []any{r.cluster, of.Group, of.Plural, p[0], p[1]},
			[]any{&l.namespace, &l.name, &l.slot, &l.epoch, &l.batch, &l.n, &l.written, &op, &l.uid, &l.version, &l.stream}, func() error {
				if name := [2]string{l.namespace, l.name}; op == change.Delete.String() {
					delete(live, name)
				} else {
					live[name] = l
				}
				return nil
			})
		if err == nil {
			err = wait.For(ctx, time.Since(began)) // half of the time is left to others
		}
		if err != nil {
			return nil, err
		}
	}
	return slices.SortedFunc(maps.Values(live), func(a, b lastChange) int {
		return cmp.Or(a.written.Compare(b.written), cmp.Compare(a.slot, b.slot), cmp.Compare(a.batch, b.batch), cmp.Compare(a.n, b.n))
	}), nil
}

// partitions are the spans of time of the partitions of changes, the oldest first.
func (r *Reader) partitions(ctx context.Context) (all [][2]time.Time, err error) {
	const look = `select lower, upper from kubecdc_log.partitions where parent = 'changes' and lower is not null order by lower`
	var p [2]time.Time
	err = r.db.Each(ctx, "list the partitions of the log", look, nil, []any{&p[0], &p[1]}, func() error {
		all = append(all, p)
		return nil
	})
	return all, err
}

// states visits the states after some changes, each found by its key.
func (r *Reader) states(ctx context.Context, of []lastChange, noBodies bool, parsed streams, visit func(*sinks.Logged)) error {
	const look = `select g.i, case when $7 then null else c.after end
		from unnest($2::int[], $3::bigint[], $4::bigint[], $5::int[], $6::timestamptz[]) with ordinality as g (slot, epoch, batch, n, written, i)
		cross join lateral (select after from kubecdc_log.changes where (cluster, slot, epoch, batch, n, written) =
			($1, g.slot, g.epoch, g.batch, g.n, g.written) limit 1) c`
	var slots, ns []int
	var epochs, batches []int64
	var written []time.Time
	for _, l := range of {
		slots, ns, epochs, batches, written = append(slots, l.slot), append(ns, l.n), append(epochs, l.epoch), append(batches, l.batch),
			append(written, l.written)
	}
	var i int
	var after []byte
	return r.db.Each(ctx, "read the last states of objects", look, []any{r.cluster, slots, epochs, batches, ns, written, noBodies},
		[]any{&i, &after}, func() error {
			at := &of[i-1]
			l := sinks.Logged{Slot: at.slot, Epoch: at.epoch, Batch: uint64(at.batch), Logged: at.written}
			l.Stream, l.Namespace, l.Name, l.UID, l.ResourceVersion, l.After = parsed.of(at.stream), at.namespace, at.name, at.uid, at.version, after
			visit(&l)
			return nil
		})
}

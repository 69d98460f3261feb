package postgres

import (
	"context"
	"time"

	"kubecdc/checkpoint/internal/tables"
)

// prune makes the oldest remaining row complete. The values that a commit adds to that row at the same time take precedence.
const prune = `
with keep as (
  select s.slot, coalesce(
    (select c.second from kubecdc.checkpoints c where c.cluster = s.cluster and c.slot = s.slot
      and c.second >= date_trunc('second', now() - $2::interval) and c.time > now() - $2::interval order by c.second limit 1),
    (select max(c.second) from kubecdc.checkpoints c where c.cluster = s.cluster and c.slot = s.slot)) as second
  from kubecdc.slots s where s.cluster = $1),
whole as (
  select k.slot, k.second,
    coalesce(jsonb_object_agg(o.key, o.value order by c.second) filter (where o.key is not null), '{}') as offsets
  from keep k
  join kubecdc.checkpoints c on c.cluster = $1 and c.slot = k.slot and c.second <= k.second and c.second >= (
    select max(b.second) from kubecdc.checkpoints b
    where b.cluster = $1 and b.slot = k.slot and b.complete and b.second <= k.second)
  left join jsonb_each(c.offsets) o on true
  group by k.slot, k.second),
completed as (
  update kubecdc.checkpoints c set offsets = w.offsets || c.offsets, complete = true from whole w
  where c.cluster = $1 and c.slot = w.slot and c.second = w.second and not c.complete)
delete from kubecdc.checkpoints c using keep k where c.cluster = $1 and c.slot = k.slot and c.second < k.second`

// Prune drops the rows that are older than the age, except the newest of each slot, and the signals that ended before that.
func (s *Store) Prune(ctx context.Context, age time.Duration) error {
	err := s.Bound()
	if err == nil {
		_, err = s.db.Exec(ctx, prune, s.Cluster(), age)
	}
	if err == nil {
		const signals = `delete from kubecdc.signals where cluster = $1 and answered < now() - $2::interval and not`
		_, err = s.db.Exec(ctx, signals+tables.IsOpen, s.Cluster(), age)
	}
	return s.db.Fail("prune the history", err)
}

// Size returns the size of the schema's tables with their indexes, in bytes.
func (s *Store) Size(ctx context.Context) (bytes int64, err error) {
	const query = `select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint from pg_class
		where relnamespace = 'kubecdc'::regnamespace and relkind = 'r'`
	err = s.db.QueryRow(ctx, query).Scan(&bytes)
	return bytes, s.db.Fail("measure the tables", err)
}

package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/history"
)

// History gives the latest checkpoints of a slot, newest first.
func (s *Store) History(ctx context.Context, slot, limit int) ([]checkpoint.Checkpoint, error) {
	return s.Select(ctx, slot, checkpoint.Window{Limit: limit})
}

// Select gives the checkpoints of a slot in a window, newest first.
func (s *Store) Select(ctx context.Context, slot int, w checkpoint.Window) ([]checkpoint.Checkpoint, error) {
	history, err := s.history(ctx, slot, w)
	return history, s.db.Fail(fmt.Sprintf("read the history of slot %d", slot), err)
}

// lookHistory begins at the last complete row before the oldest wanted one.
const lookHistory = `
with wanted as (select second from kubecdc.checkpoints where cluster = $1 and slot = $2
    and time >= coalesce($3::timestamptz, '-infinity') and time <= coalesce($4::timestamptz, 'infinity')
    and ($6::bigint = 0 or seq = $6) order by second desc limit nullif($5::bigint, 0)),
  oldest as (select min(second) as second from wanted)
select c.epoch, c.seq, c.time, c.positions, c.offsets, c.second >= (select second from oldest)
from kubecdc.checkpoints c where c.cluster = $1 and c.slot = $2 and c.second >= (
  select max(b.second) from kubecdc.checkpoints b
  where b.cluster = $1 and b.slot = $2 and b.complete and b.second <= (select second from oldest))
  and c.second <= (select max(second) from wanted)
order by c.second`

func (s *Store) history(ctx context.Context, slot int, w checkpoint.Window) ([]checkpoint.Checkpoint, error) {
	if err := s.bound(); err != nil {
		return nil, err
	}
	rows, err := s.db.Query(ctx, lookHistory, s.cluster.Load(), slot, orNull(w.Since), orNull(w.Until), w.Limit, w.Batch)
	if err != nil {
		return nil, err
	}
	var all history.Builder
	c := checkpoint.Checkpoint{Slot: slot}
	var moved []byte
	var offsets flatOffsets
	var wanted bool
	_, err = pgx.ForEachRow(rows, []any{&c.Epoch, &c.Seq, &c.Time, &moved, &offsets, &wanted}, func() (err error) {
		c.Time = c.Time.UTC()
		if c.Offsets, err = offsets.nested(); err == nil && wanted {
			c.Positions, err = history.DecodePositions(moved)
		}
		all.Add(c, wanted)
		offsets = nil // a map that is scanned into keeps what it has
		return err
	})
	return all.NewestFirst(), err
}

// orNull is null for the zero time.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// prune makes the oldest row that it keeps complete. What a commit adds to that row meanwhile wins.
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

// Prune drops the rows that are older than the age, but never the newest of a slot, and the signals that have ended before that.
func (s *Store) Prune(ctx context.Context, age time.Duration) error {
	err := s.bound()
	if err == nil {
		_, err = s.db.Exec(ctx, prune, s.cluster.Load(), age)
	}
	if err == nil {
		const signals = `delete from kubecdc.signals where cluster = $1 and answered < now() - $2::interval and not`
		_, err = s.db.Exec(ctx, signals+isOpen, s.cluster.Load(), age)
	}
	return s.db.Fail("prune the history", err)
}

// Size is that of the tables in the schema, with their indexes.
func (s *Store) Size(ctx context.Context) (bytes int64, err error) {
	const look = `select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint from pg_class
		where relnamespace = 'kubecdc'::regnamespace and relkind = 'r'`
	err = s.db.QueryRow(ctx, look).Scan(&bytes)
	return bytes, s.db.Fail("measure the tables", err)
}

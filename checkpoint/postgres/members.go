package postgres

import (
	"context"
	"slices"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/internal/pgdb"
)

// beat records the owner, drops expired members, and selects the live members and the owners of slots. A statement does not see
// its own changes, so it adds the owner itself.
const beat = `
with note as (
  insert into kubecdc.members (cluster, owner, alive_until) values ($1, $2, clock_timestamp() + $3::interval)
  on conflict (cluster, owner) do update set alive_until = excluded.alive_until
), dead as (
  delete from kubecdc.members m using (
    select owner from kubecdc.members
    where cluster = $1 and alive_until < clock_timestamp() and owner <> $2 for update skip locked
  ) d where m.cluster = $1 and m.owner = d.owner
)
select $2, null::int union all
select owner, null from kubecdc.members where cluster = $1 and alive_until >= clock_timestamp() and owner <> $2 union all
select owner, slot from kubecdc.slots where cluster = $1 and lease_until > clock_timestamp()`

func (s *Store) Heartbeat(ctx context.Context, owner string, ttl time.Duration) (r checkpoint.Replicas, err error) {
	if err := s.SameLayout(ctx); err != nil {
		return r, err
	}
	r.Slots = map[int]string{}
	var who string
	var slot *int
	err = pgdb.Querier{DB: s.db}.Rows(ctx, beat, []any{s.Cluster(), owner, ttl}, []any{&who, &slot}, func() error {
		if slot == nil {
			r.Members = append(r.Members, who)
		} else {
			r.Slots[*slot] = who
		}
		return nil
	})
	slices.Sort(r.Members)
	return r, s.db.Fail("say that this replica lives", err)
}

func (s *Store) Leave(ctx context.Context, owner string) error {
	_, err := s.db.Exec(ctx, `delete from kubecdc.members where cluster = $1 and owner = $2`, s.Cluster(), owner)
	return s.db.Fail("leave the replicas", err)
}

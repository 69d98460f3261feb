-- +goose Up

-- The replicas that live.
create table members (
  cluster     int not null references clusters,
  owner       text collate "C" not null,
  alive_until timestamptz not null, -- by this server's clock
  primary key (cluster, owner)
) with (fillfactor = 50);

-- How many slots the streams hash onto. Slots beyond that are left over from an earlier layout.
create table layouts (
  cluster int primary key references clusters,
  slots   int not null
);
insert into layouts select cluster, max(slot) + 1 from slots group by cluster;

-- resize is one statement, so that no lock is held for a client that may stop in the middle. Whoever acquires a slot
-- reads the layout "for share": before this update, and then the epoch is not the expected one, or after it.
-- It answers ok; fenced, when a slot has another epoch than expected; or layout, when that is not from_slots.
-- +goose StatementBegin
create function resize(in_cluster int, from_slots int, to_slots int, in_slots int[], in_epochs bigint[]) returns text
language plpgsql as $$
begin
  perform from layouts where cluster = in_cluster and slots = from_slots for update;
  if not found then
    return 'layout';
  end if;
  perform from unnest(in_slots, in_epochs) as o (slot, epoch)
    left join slots s on s.cluster = in_cluster and s.slot = o.slot and s.epoch = o.epoch
    where s.slot is null;
  if found then
    return 'fenced';
  end if;
  update layouts set slots = to_slots where cluster = in_cluster;
  return 'ok';
end
$$;
-- +goose StatementEnd

-- take_slot answers with no row when the slot is held, or when the layout is another. in_layout is 0 where the caller
-- has none. clock_timestamp() and not now(): it may have waited for another one.
-- +goose StatementBegin
create function take_slot(in_cluster int, in_slot int, in_owner text, in_ttl interval, in_layout int)
returns table (epoch bigint, seq bigint, offsets jsonb)
language plpgsql as $$
begin
  perform from layouts l where l.cluster = in_cluster and in_layout in (0, l.slots) for share;
  if not found and in_layout <> 0 then
    return;
  end if;
  return query
    insert into slots as s (cluster, slot, epoch, owner, lease_until)
      values (in_cluster, in_slot, 1, in_owner, clock_timestamp() + in_ttl)
    on conflict (cluster, slot) do update
      set epoch = s.epoch + 1, owner = excluded.owner, lease_until = clock_timestamp() + in_ttl
      where s.owner = excluded.owner or s.lease_until <= clock_timestamp()
    returning s.epoch, s.seq, s.offsets;
end
$$;
-- +goose StatementEnd
